"""The page in a real browser: drawn rightly, used by keyboard alone, safe, and reaching for nothing."""

from __future__ import annotations

import base64
import csv
import io
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from browser import Browser
from browser import browser as browser
from browser_page import Page
from made_heads import own
from made_pages import EVIL, known, noise, pair, side, steps_of, written

from kit.inspecting.page.scene import Side

pytestmark = pytest.mark.xdist_group("browser")
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
    assert page.problems == []
    assert page.requests == [url]
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


@pytest.mark.parametrize("size", [1, 16, 128, 512])
def test_cells_have_the_colours_of_their_weights(browser, tmp_path, size):
    url = written(tmp_path, side(known(size)))
    page = opened(browser, url)
    assert page.evaluate("[plan.rows, plan.columns]") == [size, size]
    last = size - 1
    assert cell(page, 0, 0) == DARKEST
    if size > 1:
        assert cell(page, last, last - 1) == DARKEST, "a head that looks back is dark below the diagonal: [query, key]"
        assert cell(page, last, last) == PAPER and cell(page, last - 1, last) == HIDDEN
        choose(page, "decoder.0.attention:1")
        assert cell(page, last, 0) == DARKEST and cell(page, last, last - 1) == (PAPER if size > 2 else DARKEST)
        choose(page, "decoder.1.attention:1")
        assert cell(page, 1, 0) == colour(0.25**0.5) and cell(page, 1, 1) == colour(0.75**0.5)
        choose(page, "decoder.1.attention:0")
        assert cell(page, last, 0) == cell(page, last, last) == colour((1 / size) ** 0.5)
    tokens = page.evaluate("[...document.querySelectorAll('.tokens .token')].length")
    assert tokens == 2 * size
    closed(page, url)


def test_tiles_show_the_same_as_the_map(browser, tmp_path):
    url = written(tmp_path, side(known(16)))
    page = opened(browser, url, dark=True)
    assert cell(page, 5, 4) == BRIGHTEST and cell(page, 5, 2) == NIGHT
    tile = "document.querySelector(\".tile[data-id='decoder.0.attention:0'] canvas\")"
    assert page.evaluate(f"{tile}.width") == 16 and pixel(page, tile, "4", "5") == BRIGHTEST
    assert page.evaluate("document.querySelectorAll('.tile').length") == 4 + 1 + 1, "heads, a picture, their likeness"
    page.press("t")
    assert cell(page, 5, 4) == DARKEST, "light, though the system is dark"
    closed(page, url)


def test_tokens_are_text_whatever_they_say(browser, tmp_path):
    url = written(tmp_path, side(known(16, EVIL)))
    page = opened(browser, url, width=1400)
    shown = page.evaluate("[...document.querySelectorAll('.tokens .token')].slice(0, 7).map((it) => it.textContent)")
    assert shown[2:] == ["שלום", "مرحبا", "{{script}}", "&amp;", "⏎"]
    assert shown[0].startswith("</script><scrip") and shown[1].startswith("<img␣src=x")
    assert page.evaluate("document.querySelectorAll('img').length") == 0
    assert page.evaluate("document.querySelectorAll('script').length") == 3, "facts, weights and the page's own"
    page.press("m")
    assert page.evaluate("plan.labels[0][2].textContent") == "שלום"
    assert "looks <b>back</b>" in page.text("#role")
    closed(page, url)


def test_numbers_of_the_chosen_cell(browser, tmp_path):
    weights = torch.stack([steps_of(3), torch.tensor([[1, 0, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]]).double()])
    url = written(tmp_path, side(own([weights], torch.ones(3, 3).tril().bool())))
    page = opened(browser, url)
    choose(page, "decoder.0.attention:1")
    page.evaluate("chooseCell(2, 1)")
    told = page.text("#cell")
    assert "weight 0.3" in told and "row sum 1.00" in told and "column sum 0.80" in told
    value = float(told.split("weight ")[1].split()[0])
    assert value == pytest.approx(0.3, abs=0.003), "8 bits"
    page.evaluate("chooseCell(0, 2)")
    assert "may not be seen" in page.text("#cell")
    page.hover("canvas.cells")
    assert page.evaluate("[state.query, state.key]") == [1, 1]
    closed(page, url)


def test_everything_by_keyboard(browser, tmp_path):
    url = written(tmp_path, side(known(16)))
    page = opened(browser, url)
    page.evaluate(
        "(() => { window.kept = []; const old = URL.createObjectURL;"
        "URL.createObjectURL = (it) => { kept.push(it); return old.call(URL, it); }; })()"
    )
    for _ in range(20):
        page.press("Tab")
        if page.evaluate("document.activeElement.classList.contains('tile')"):
            break
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid", "one sees where one is"
    for key, chosen in (
        ("ArrowRight", "decoder.0.attention:1"),
        ("ArrowDown", "decoder.1.attention:1"),
        ("Home", "decoder.1.attention:0"),
        ("ArrowDown", "drawing rolled out"),
        ("[", "decoder.1.attention:1"),
    ):
        page.press(key)
        assert page.evaluate("state.subject.id") == chosen
        assert page.evaluate("document.activeElement.dataset.id") == chosen
    for _ in range(20):
        page.press("Tab")
        if page.focused() == "stage" or page.evaluate("document.activeElement.id") == "stage":
            break
    page.evaluate("chooseCell(3, 3)")
    page.press("ArrowUp")
    page.press("ArrowLeft")
    assert page.evaluate("[state.query, state.key]") == [2, 2] and "weight 1.0000" in page.text("#cell")
    for key in ("c", "s", "p"):
        page.press(key)
    page.wait("kept.filter((it) => it.type === 'image/png').length === 1")
    table = page.evaluate("kept[0].text()")
    rows = list(csv.reader(io.StringIO(table)))
    assert rows[0] == ["", *map(str, range(6, 22))] and len(rows) == 17
    assert float(rows[2][1]) == pytest.approx(0.25, abs=0.003) and float(rows[1][1]) == 1
    svg = page.evaluate("kept[1].text()")
    assert svg.startswith("<svg") and "data:image/png;base64," in svg and ">21</text>" in svg and "var(" not in svg
    png = base64.b64decode(page.evaluate(AS_TEXT))
    wide, high = struct.unpack(">II", png[16:24])
    assert png.startswith(b"\x89PNG") and [wide, high] == page.evaluate(
        "['width', 'height'].map((it) => 2 * plan.picture.getAttribute(it))"
    )
    page.press("m")
    page.press("ArrowDown")
    assert "looks at" in page.text("#cell") and page.visible(".graph")
    page.press("ArrowRight")
    assert "is looked at by" in page.text("#cell")
    page.press("?")
    assert page.visible("#keys")
    page.press("Escape")
    assert not page.visible("#keys")
    page.press("2")
    assert page.visible("#view-measures") and not page.visible("#view-attention")
    page.press("3")
    assert page.visible("#view-shares")
    closed(page, url)


AS_TEXT = (
    "kept.find((it) => it.type === 'image/png').arrayBuffer()"
    ".then((it) => btoa(String.fromCharCode(...new Uint8Array(it).slice(0, 64))))"
)


def test_a_graph_holds_the_strongest_weights(browser, tmp_path):
    url = written(tmp_path, side(noise(1, 2, 30)))
    page = opened(browser, url)
    page.press("m")
    assert page.evaluate("document.querySelectorAll('.wire').length") == 200
    weakest = page.evaluate("Math.min(...strongest(state.subject, plan.found, 200).map((it) => it[2]))")
    assert page.evaluate(f"plan.found.filter((it) => it >= {weakest}).length") >= 200
    page.evaluate("(() => { at('edges').value = 0; at('edges').dispatchEvent(new Event('input')); })()")
    assert page.evaluate("document.querySelectorAll('.wire').length") == 10
    closed(page, url)


def test_measures_and_shares(browser, tmp_path):
    url = written(tmp_path, side(known(4)))
    page = opened(browser, url)
    card = page.text("#card")
    assert "sharpness" in card and "0.50" in card and "12 texts" in card
    page.press("2")
    assert page.texts("figcaption") == ["near", "far", "else", "sharpness"]
    assert "0.40 to 0.60" in page.texts("tbody tr")[0]
    page.click("th [data-name=sharpness]")
    assert page.texts("tbody th")[0] == "decoder.1.attention:1", "the largest is first"
    page.click("tbody th button")
    assert page.visible("#view-attention") and page.evaluate("state.subject.id") == "decoder.1.attention:1"
    page.press("3")
    widths = page.evaluate(
        "[...document.querySelectorAll('#view-shares g.pick')].map((it) => [...it.querySelectorAll('rect')]"
        ".map((piece) => Number(piece.getAttribute('width'))))"
    )
    assert widths[0] == pytest.approx([210, 105, 105]) and all(sum(row) == pytest.approx(420) for row in widths)
    closed(page, url)


def test_a_pair_names_what_cannot_be_seen(browser, tmp_path):
    url = written(tmp_path, side(pair()))
    page = opened(browser, url)
    assert "decoder.1.attention has no weights to show: it keeps no weights" in page.text("#notes")
    assert "written by the model" in page.text("#about")
    choose(page, "decoder.0.cross_attention:0")
    assert page.evaluate("[plan.rows, plan.columns]") == [4, 5]
    assert cell(page, 0, 4) == DARKEST and cell(page, 3, 1) == DARKEST and cell(page, 0, 0) == PAPER
    page.evaluate("chooseCell(0, 4)")
    assert "(writes 21)" in page.text("#cell")
    closed(page, url)


def test_two_models_and_their_difference(browser, tmp_path):
    before = own([torch.stack([steps_of(3)])], torch.ones(3, 3).tril().bool())
    after = own([torch.eye(3).double()[None]], torch.ones(3, 3).tril().bool())
    url = written(tmp_path, side(before, "one/1"), side(after, "two/1", 0.1))  # before, and after
    page = opened(browser, url)
    assert page.texts("#sides button") == ["one/1", "two/1", "two/1 − one/1"]
    assert page.text("h1") == "two/1 against one/1" and cell(page, 1, 0) == PAPER
    page.press("a")
    less, more = cell(page, 1, 0), cell(page, 1, 1)
    assert less[0] > less[2] and more[2] > more[0], "orange for less, blue for more"
    page.evaluate("chooseCell(1, 0)")
    assert "change −0.25" in page.text("#cell")
    page.press("a")
    assert cell(page, 1, 0) == colour(0.5)
    page.press("a")
    page.press("a")
    page.press("2")
    assert "0.100" in page.texts("tbody tr")[0] or "0.10" in page.texts("tbody tr")[0]
    closed(page, url)


def test_a_page_without_room_says_so(browser, tmp_path):
    url = written(tmp_path, side(noise(2, 4, 96)), most=110_000)
    assert Path(url.removeprefix("file://")).stat().st_size <= 110_000
    page = opened(browser, url)
    assert "of 8 heads" in page.text("#notes")
    missing = page.evaluate("document.querySelectorAll('.tile.missing').length")
    assert 0 < missing < 8
    page.click(".tile.missing")
    assert "There was no room" in page.text("#stage") and "sharpness" in page.text("#card")
    closed(page, url)


@pytest.mark.parametrize("width", [390, 1600])
def test_it_fits_the_screen(browser, tmp_path, width):
    url = written(tmp_path, side(noise(3, 12, 20)))
    page = opened(browser, url, width=width)
    for tab in "123":
        page.press(tab)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), tab
    closed(page, url)


def test_a_model_without_weights_says_so(browser, tmp_path):
    record = replace(known(3), maps=(), unseen={"decoder.0.attention": "it keeps none"})
    url = written(tmp_path, Side("made/1", record))
    page = opened(browser, url)
    assert page.text("#problem") == "No part of this model has weights to show."
    assert "decoder.0.attention has no weights to show: it keeps none" in page.text("#notes")
    closed(page, url)


def test_negative_weights_have_colours_of_their_own(browser, tmp_path):
    weights = torch.tensor([[[1.0, 0.0], [-0.5, 0.5]]]).double()
    url = written(tmp_path, side(own([weights], torch.ones(2, 2).bool(), kind="encoder")))
    page = opened(browser, url)
    less, more = cell(page, 1, 0), cell(page, 1, 1)
    assert less[0] > less[2] and more[2] > more[0]
    page.evaluate("chooseCell(1, 0)")
    assert "weight −0.5" in page.text("#cell") and "row sum 0.00" in page.text("#cell")
    closed(page, url)
