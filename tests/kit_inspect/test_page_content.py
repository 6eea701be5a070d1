"""What is in a page: numbers that survive packing, a size that is kept to, and nothing that a token can break."""

from __future__ import annotations

import base64
import gzip
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch
from pages.synthetic_pages import EVIL, known, made, noise, pair, side
from typer.testing import CliRunner

from kit import KitError
from kit.cli.main import app
from kit_inspect.head_order import installed_probes
from kit_inspect.page.html import code
from kit_inspect.page.packing import STEPS, Packer, quantized
from kit_inspect.page.view import measured, page_view, sums_to_one, with_comparison


def facts_of(html: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="facts">(.*?)</script>', html, re.DOTALL)[1])


def bytes_of(html: str) -> bytes:
    return gzip.decompress(base64.b64decode(re.search(r'id="packed">(.*?)</script>', html)[1]))


@pytest.mark.parametrize("steps", STEPS)
def test_weights_survive_their_bytes(steps):
    weights = torch.rand(7, 5, generator=torch.Generator().manual_seed(0)).double() * 0.3
    data, peak, signed = quantized(weights, steps)
    back = peak * (torch.frombuffer(bytearray(data), dtype=torch.uint8).double().view(7, 5) / steps).square()
    assert not signed and peak == weights.max()
    # Half a step of the root on either side, which is all that is promised.
    assert ((back / peak).sqrt() - (weights / peak).sqrt()).abs().max() <= 0.5 / steps + 1e-12
    negative = weights - 0.1
    data, peak, signed = quantized(negative, steps)
    level = (torch.frombuffer(bytearray(data), dtype=torch.uint8).double().view(7, 5) - steps // 2) / (steps // 2)
    back = peak * level * level.abs()
    assert signed and (back - negative).abs().max() < 3 * peak / steps


def test_a_mask_is_kept_once():
    packer, mask = Packer(), torch.ones(4, 4).tril().bool()
    assert packer.mask(mask) == packer.mask(mask.clone()) == 0
    assert packer.mask(torch.ones(4, 4).bool()) is None
    assert packer.add(b"x") == 16


def test_twelve_by_twelve_heads_of_128_tokens_fit_into_two_megabytes():
    page = made(side(noise(12, 12, 128)))
    assert len(page.html.encode()) < 2_000_000
    assert page.left_out == 0, "all heads are there, though nothing in noise can be compressed"


def test_code_is_small():
    assert sum(len(text.encode()) for text in code()) <= 60_000


def test_what_does_not_fit_is_left_out_and_told():
    page = made(side(noise(2, 4, 96)), most=110_000)
    features = facts_of(page.html)
    kept = [grid for found in features["sides"][0]["maps"] for grid in found["heads"] if grid]
    assert len(kept) == 8 - page.left_out and 0 < page.left_out < 8
    assert f"room for {len(kept)} of 8 heads" in features["notes"][-1]
    assert len(features["sides"][0]["cards"]) == 8, "measures are of all heads"


def test_no_token_is_markup():
    page = made(side(known(16, EVIL), "</title><b>run</b>"))

    class Tags(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.found: list[str] = []

        def handle_starttag(self, tag, attrs):
            self.found.append(tag)

    tags = Tags()
    tags.feed(page.html)
    assert tags.found.count("script") == 3 and "img" not in tags.found and "b" not in tags.found
    features = facts_of(page.html)
    assert features["rows"]["target"]["tokens"][: len(EVIL)] == list(EVIL)
    assert "<" not in re.search(r'id="facts">(.*?)</script>', page.html, re.DOTALL)[1]


def test_half_a_character_is_no_reason_to_fail(tmp_path):
    path = made(side(known(2, ("\ud800",)), "run\udcff")).write(tmp_path / "page.html")
    assert facts_of(path.read_text())["rows"]["target"]["tokens"][0] == "\ud800"


def test_everything_that_runs_is_in_the_policy():
    page = made(side(known(3)))
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', page.html)[1]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "connect-src" not in policy
    assert policy == page.policy
    assert not re.search(r"(?:src|href)=\"(?!data:)", page.html)


def test_without_scripts_there_is_a_table():
    html = made(side(pair())).html
    table = re.search(r"<noscript>(.*?)</noscript>", html, re.DOTALL)[1]
    assert table.count("<tr>") == 1 + 6 and "looks &lt;b&gt;back&lt;/b&gt;" in table and "<td>0.5</td>" in table


def test_sums_are_those_of_the_weights():
    record = noise(1, 2, 9)
    html = made(side(record)).html
    grid = facts_of(html)["sides"][0]["maps"][0]["heads"][1]
    start, most = grid["columns"]
    fine = torch.frombuffer(bytearray(bytes_of(html)[start : start + 18]), dtype=torch.int16).double() / 32767 * most
    assert torch.allclose(fine, record.maps[0].weights[1].sum(0), atol=1e-4)


def test_shares_of_a_whole_are_found_by_their_values(pairs):
    probes = installed_probes(pairs.loaded_run.kit.registry)
    report = measured(pairs, probes, None, 12).report
    found = sums_to_one(report, probes)
    assert found and all(len(names) == 3 for names in found)
    for names in found:
        card = report.heads[0]
        assert sum(card.estimates[name].value for name in names) == pytest.approx(1)


def test_a_scene_of_a_run_and_of_before_and_after(pairs):
    probes = installed_probes(pairs.loaded_run.kit.registry)
    known_ = measured(pairs, probes, "1 2 3", 6)
    assert known_.report.sequences == 6
    first = page_view("pairs/1", pairs, "1 2 3", probes, known_)
    assert {drawing.name.partition(",")[0] for drawing in first.models[0].drawings} >= {"rollout", "alignment"}
    both = with_comparison(first, "untrained", pairs.untrained_copy(), pairs, probes, known_)
    assert both.models[0].record.target.tokens == first.models[0].record.target.tokens
    assert [len(side_.report.heads) for side_ in both.models] == [16, 16]
    features = facts_of(made(*both.models).html)
    assert [side_["name"] for side_ in features["sides"]] == ["untrained", "pairs/1"]


def test_another_vocabulary_cannot_be_compared(pairs, text):
    first = page_view("pairs/1", pairs, "1 2 3")
    with pytest.raises(KitError, match=r"other tokens|cannot read the tokens"):
        with_comparison(first, "text/1", text, pairs, (), measured(pairs, (), None, 0))


def test_measures_of_one_text_say_so(pairs):
    probes = installed_probes(pairs.loaded_run.kit.registry)
    alone = measured(pairs, probes, "1 2 3", 0)
    assert alone.report.sequences == 1 and "this text alone" in alone.notes[0]


def test_the_command(made_runs, tmp_path, monkeypatch):
    from runs import few_step_runs

    run = made_runs(few_step_runs.PAIRS)
    monkeypatch.chdir(tmp_path)

    def said(*words: str) -> str:
        result = CliRunner().invoke(app, ["inspect", str(run.path), *words, "--texts", "4"])
        assert result.exit_code == 0, f"{result.output} {result.exception!r}"
        return result.stdout

    told = json.loads(said("1 2 3", "--target", "3 2 1", "--output", "page.html", "--json"))
    html = Path("page.html").read_text()
    features = facts_of(html)
    assert told["bytes"] == len(html.encode()) and told["unseen"] == {} and len(told["report"]["heads"]) == 16
    assert (
        features["text"] == "1 2 3"
        and not features["written"]
        and features["rows"]["target"]["tokens"][1:] == ["3", "2", "1"]
    )
    assert "written to" in said("1 2 3", "--against", "untrained")
    features = facts_of((run.reports / "attention_1_2_3.html").read_text())
    assert features["written"] and features["sides"][0]["name"] == "untrained"
    assert "written to" in said("--output", "other.html"), "a held-out text where none is given"
    result = CliRunner().invoke(app, ["inspect", str(run.path), "--target", "3"])
    assert result.exit_code and "without a text" in str(result.exception)
