"""Pages of attention in a real browser: opening them, choosing in them, and the colours of their cells."""

from __future__ import annotations

from typing import Any

from pages.browser import Browser
from pages.browser_page import Page

READY = "document.documentElement.dataset.ready === 'true'"
PAPER, DARKEST, HIDDEN = (252, 251, 248), (8, 34, 58), (233, 229, 220)  # in the light: 0, 1, and what may not be seen
NIGHT, BRIGHTEST = (21, 25, 28), (253, 247, 207)
LIGHT = ("fcfbf8", "d3e5ef", "86bcd8", "3584b4", "154c76", "08223a")


def colour(place: float) -> tuple[int, int, int]:
    """The colour of a place between 0 and 1, in the light."""
    at = round(place * 255) / 255 * (len(LIGHT) - 1)
    start = min(int(at), len(LIGHT) - 2)
    one, two = (tuple(bytes.fromhex(LIGHT[number])) for number in (start, start + 1))
    red, green, blue = (round(a + (b - a) * (at - start)) for a, b in zip(one, two, strict=True))
    return red, green, blue


def opened(browser: Browser, url: str, **how: Any) -> Page:
    page = browser.open(url, **how)
    page.wait(READY)
    return page


def closed(page: Page, url: str) -> None:
    """Nothing went wrong, and nothing but the file itself was asked for."""
    assert page.problems == [], page.problems
    assert page.requests == [url], page.requests
    page.close()


def pixel(page: Page, canvas: str, x: str, y: str) -> tuple[int, ...]:
    """One pixel, read from a copy: a canvas that is read often is drawn another way."""
    copied = (
        f"copy.drawImage(canvas, -Math.floor({x}), -Math.floor({y})); return [...copy.getImageData(0, 0, 1, 1).data]"
    )
    made = "new OffscreenCanvas(1, 1).getContext('2d')"
    return tuple(page.evaluate(f"(() => {{ const canvas = {canvas}, copy = {made}; {copied}; }})()")[:3])


def cell(page: Page, query: int, key: int) -> tuple[int, ...]:
    """The colour in the middle of a cell of the large map."""
    x, y = f"({key} + .5) * canvas.width / plan.columns", f"({query} + .5) * canvas.height / plan.rows"
    return pixel(page, "plan.canvas", x, y)


def choose(page: Page, name: str) -> None:
    page.click(f".tile[data-id='{name}']")
