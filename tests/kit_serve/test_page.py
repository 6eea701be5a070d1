"""The page in a real browser: a person types and sees the answer, with the keyboard alone, in both themes."""

from __future__ import annotations

import pytest
from pages.browser import Browser
from pages.browser_page import Page
from processes.servers import Echo, serving

from kit_serve.request import Limits

pytestmark = pytest.mark.xdist_group("browser")
READY = "document.title.includes('·')"
RESULT = "article [data-result]:not([hidden])"


def answered(page: Page, number: int, failed: int = 0) -> None:
    """Wait until there are so many answers, so many of which are refusals."""
    page.wait(f"document.querySelectorAll('article:not([aria-busy])').length === {number}")
    reasons = page.texts(".failed .why")
    assert len(reasons) == failed, f"{reasons} {page.problems}"


def opened(browser: Browser, url: str, **how: bool | int) -> Page:
    page = browser.open(url, **how)
    page.wait(READY)
    return page


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_person_types_and_sees_the_answers(browser, dark):
    with serving(Echo(), examples=["one", "two"]) as server:
        page = opened(browser, server.url, dark=dark)
        assert page.text("h1") == "echo/1" and "1,234 parameters" in page.text("#facts")
        assert page.focused() == "text", "one can type at once"
        page.type("abc ☃")
        page.press("Enter")
        answered(page, 1)
        assert page.text("article .best") == "☃ cba"
        assert page.texts("article .ranks .what") == ["☃ cba", "☃ cba!", "☃ cba!!"]
        assert page.texts("article .ranks .score") == ["0.00", "−1.00", "−2.00"]
        assert page.text("article .note") == "Unknown: '☃'"
        assert page.evaluate("[...document.querySelectorAll('.fill')].map((it) => parseInt(it.style.width))") == [
            100,
            36,
            13,
        ]
        assert not page.visible("[data-region=attention]"), "its place is kept, and takes none until there is something"
        page.type("again")  # what was asked is selected, so that typing replaces it
        page.press("Shift+Enter")
        page.type("below")
        page.press("Enter")
        answered(page, 2)
        assert page.text("article .best") == "woleb\nniaga", "the newest is first"
        ground, ink = page.evaluate(
            "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
        )
        assert (brightness(ground) < brightness(ink)) is dark
        assert page.problems == []
        assert {url.removeprefix(server.url) for url in page.requests} == {"", "about", "predict"}
        page.close()


def brightness(colour: str) -> int:
    return sum(int(float(part)) for part in colour[colour.index("(") + 1 : -1].split(",")[:3])


def test_everything_is_reached_by_keyboard(browser):
    with serving(Echo(), examples=["one", "two"]) as server:
        page = opened(browser, server.url)
        seen = []
        for _ in range(4):
            page.press("Tab")
            seen.append(page.focused())
        assert seen == ["nbest", "send", "one", "two"]
        page.press("Enter")
        answered(page, 1)
        assert page.text("article .best") == "owt"
        assert page.focused() == "text"
        page.press("Shift+Tab")
        page.press("Enter")  # the button for the theme
        assert page.evaluate("document.documentElement.dataset.theme") == "light"
        page.goto(server.url)
        page.wait(READY)
        assert page.text("#theme") == "Theme: light", "it is remembered"
        assert page.problems == []
        page.close()


def test_markup_is_text(browser):
    attack = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"
    with serving(Echo(), examples=[attack]) as server:
        page = opened(browser, server.url)
        page.type(attack[::-1])  # which the model turns round
        page.press("Enter")
        answered(page, 1)
        assert page.text("article .best") == attack and page.text(".chip") == attack
        assert page.evaluate("document.querySelectorAll('img, article script').length") == 0
        assert page.evaluate("document.title") == "echo/1 · Kitformer" and page.problems == []
        page.close()


def test_classes_are_bars(browser):
    with serving(Echo("classify")) as server:
        page = opened(browser, server.url)
        assert page.text("#send") == "Classify" and not page.visible("#how-many")
        page.type("a rose")
        page.press("Enter")
        answered(page, 1)
        assert page.text("article .best") == "red"
        assert page.texts("article .ranks li .what") == ["red", "green", "blue"]
        assert page.texts("article .score") == ["75.0 %", "25.0 %", "8.3 %"]
        widths = page.evaluate("[...document.querySelectorAll('.fill')].map((it) => it.offsetWidth)")
        assert widths[0] > 2 * widths[1] > 4 * widths[2] > 0
        assert page.problems == []
        page.close()


def test_blanks_are_marked_where_they_were_filled(browser):
    with serving(Echo("fill_mask")) as server:
        page = opened(browser, server.url)
        page.type("the ")
        page.click("#hole")
        page.type(" sat")
        page.press("Enter")
        answered(page, 1)
        assert page.text("article .best") == "the cat sat"
        assert page.texts("article mark") == ["cat", "cat", "dog", "log"]
        page.close()


def test_a_continuation_stands_after_its_beginning(browser):
    with serving(Echo("generate")) as server:
        page = opened(browser, server.url)
        page.type("abc")
        page.press("Enter")
        answered(page, 1)
        assert page.text("article .best") == "abccba" and page.text("article .best .given") == "abc"
        page.close()


def test_mistakes_are_told_kindly_and_can_be_tried_again(browser):
    with serving(Echo(), Limits(characters=20)) as server:
        page = opened(browser, server.url)
        page.press("Enter")
        assert page.text("#status") == "Type something first." and not page.visible("article")
        page.type("x" * 21)
        assert page.text("#count") == "21 of 20 characters"
        page.press("Enter")
        answered(page, 1, failed=1)
        assert "21 characters long; at most 20" in page.text(".failed .why")
        assert not page.visible(".failed [data-again]"), "it would be refused again"
        page.type("crash")
        page.press("Enter")
        answered(page, 2, failed=2)
        assert "the model failed on this text" in page.text(".failed .why") and page.visible(".failed [data-again]")
    page.press("Control+a")
    page.type("anybody?")
    page.press("Enter")
    answered(page, 3, failed=3)
    assert page.text(".failed .why") == "The server cannot be reached. Is it still running?"
    page.close()


def test_busy_then_again(browser):
    echo = Echo()
    with serving(echo, Limits(queue=1)) as server:
        page = opened(browser, server.url)
        echo.go.clear()
        for number, text in enumerate(("first", "second", "third")):
            page.press("Control+a")
            page.type(text)
            page.press("Enter")
            wanted = {"working": 1, "waiting": min(number, 1)}
            page.wait(
                "fetch('health').then((it) => it.json()).then((it) => "
                f"it.queue.working === {wanted['working']} && it.queue.waiting === {wanted['waiting']})"
            )
        page.wait("document.querySelector('.failed')")
        assert "The server is busy" in page.text(".failed .why")
        echo.go.set()
        page.wait("!document.querySelector('article[aria-busy]')")
        # The third, and whichever a browser short of time lost its connection for and asked again meanwhile.
        page.evaluate("document.querySelectorAll('.failed [data-again]').forEach((it) => it.click())")
        page.wait(f"document.querySelectorAll('{RESULT}').length === 3")
        assert page.texts("article .best") == ["driht", "dnoces", "tsrif"] and not page.visible(".failed")
        page.close()


@pytest.mark.parametrize("width", [320, 390, 1600])
def test_it_fits_the_screen(browser, width):
    with serving(Echo(), examples=["a rather long example of a text that somebody may want to try"] * 6) as server:
        page = opened(browser, server.url, width=width)
        page.type("w" * 3000)
        page.press("Enter")
        answered(page, 1)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.close()
