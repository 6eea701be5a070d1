"""The page in a real browser: used by keyboard alone, with the numbers behind what is drawn."""

from __future__ import annotations

import base64
import csv
import io
import struct

import pytest
import torch
from models.synthetic_attention import own
from pages.attention_page import choose, closed, opened
from pages.synthetic_pages import known, noise, side, steps_of, written

pytestmark = pytest.mark.xdist_group("browser")
AS_TEXT = (
    "kept.find((it) => it.type === 'image/png').arrayBuffer()"
    ".then((it) => btoa(String.fromCharCode(...new Uint8Array(it).slice(0, 64))))"
)


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
