"""Held-out batches are the same every time; windows count what their objective predicts."""

from __future__ import annotations

import pytest

from kit.data.packing import PackedRows
from kit.data.steps import share_of
from kit.training.preparing import prepare

DECODER = ["model.family=decoder", "model.encoder=null", "model.decoder.cross_attention=null", "training.metrics=[]"]
ENCODER = ["model.family=encoder", "model.decoder=null", "training.metrics=[]"]
TEXT = "data={use: plain_text, train: text.txt, documents: line}"


@pytest.fixture(autouse=True)
def _text(tmp_path):
    words = ["one", "two", "three", "four", "five", "six", "seven"]
    (tmp_path / "text.txt").write_text("".join(" ".join(words[: 2 + n % 6]) + "\n" for n in range(60)))


def test_some_examples_are_drawn_once_and_for_all(tiny, kit):
    prepared = prepare(tiny("data.validation=100"), kit)
    feeds = [prepared.feeds.held_out("validation", 50, most=30) for _ in range(2)]
    drawn = [[index for batch in feed.batches() for index in batch.indices] for feed in feeds]
    assert drawn[0] == drawn[1]
    assert len(set(drawn[0])) == 30
    assert max(drawn[0]) > 60, "not just the first ones"


def test_all_examples_once(tiny, kit):
    feed = prepare(tiny(), kit).feeds.held_out("test", 50)
    assert sorted(index for batch in feed.batches() for index in batch.indices) == list(range(10))


def test_examples_that_are_too_long_are_counted(tiny, kit):
    prepared = prepare(tiny("model.length=6"), kit)
    assert prepared.feed.left_out > 0
    batches = list(prepared.feeds.held_out("train", 200).batches())
    longest = max(side.ids.shape[1] for batch in batches for side in (batch.source, batch.target) if side is not None)
    assert longest == 6


@pytest.mark.parametrize(
    ("objective", "masks"), [("causal", "[causal]"), ("causal", "[causal, document]"), ("prefix", "[prefix]")]
)
def test_windows_say_how_much_they_predict(tiny, kit, tmp_path, objective, masks):
    overrides = [*DECODER, TEXT, f"training.objective={objective}", f"model.decoder.masks={masks}", "model.length=12"]
    prepared = prepare(tiny(*overrides), kit, tmp_path)
    assert isinstance(prepared.feed.rows, PackedRows) == ("document" in masks)
    _as_counted(prepared)


def test_blocks_are_as_long_as_the_model_reads(tiny, kit, tmp_path):
    prepared = prepare(tiny(*ENCODER, TEXT, "model.length=12"), kit, tmp_path)
    batch = prepared.feed.rows[share_of(prepared.feed.sampler, 0)]
    assert batch.source is not None and batch.source.ids.shape[1] == 12
    _as_counted(prepared)


def _as_counted(prepared) -> None:
    for step in range(5):
        batch = prepared.feed.rows[share_of(prepared.feed.sampler, step)]
        assert prepared.objective.loss(prepared.model, batch).count == batch.global_tokens
    for batch in prepared.feeds.held_out("validation", 60).batches():
        assert prepared.objective.loss(prepared.model, batch).count == batch.global_tokens
