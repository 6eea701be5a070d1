"""The page in a real browser: drawn rightly, safe, saying what it cannot show, and reaching for nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from models.synthetic_attention import own
from pages.attention_page import BRIGHTEST, DARKEST, HIDDEN, NIGHT, PAPER, cell, choose, closed, colour, opened, pixel
from pages.synthetic_pages import EVIL, known, noise, pair, side, steps_of, written

from kit_inspect.page.view import ModelView

pytestmark = pytest.mark.xdist_group("browser")


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
    url = written(tmp_path, ModelView("made/1", record))
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
