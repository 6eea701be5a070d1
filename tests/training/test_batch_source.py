"""Held-out batches are the same every time; windows count what their objective predicts."""

from __future__ import annotations

import pytest

from kit.data.packing import DocumentRows
from kit.data.samplers import shard_of
from kit.training.preparation import prepare_training

DECODER = ["model.family=decoder", "model.encoder=null", "model.decoder.cross_attention=null", "training.metrics=[]"]
ENCODER = ["model.family=encoder", "model.decoder=null", "training.metrics=[]"]
TEXT = "data={use: plain_text, train: text.txt, documents: line}"


@pytest.fixture(autouse=True)
def _text(tmp_path):
    words = ["one", "two", "three", "four", "five", "six", "seven"]
    (tmp_path / "text.txt").write_text("".join(" ".join(words[: 2 + n % 6]) + "\n" for n in range(60)))


def test_some_examples_are_drawn_once_and_for_all(tiny, kit):
    prepared = prepare_training(tiny("data.validation=100"), kit)
    drawn_sources = [prepared.sources.held_out("validation", 50, max_examples=30) for _ in range(2)]
    drawn = [[index for batch in source.batches() for index in batch.indices] for source in drawn_sources]
    assert drawn[0] == drawn[1]
    assert len(set(drawn[0])) == 30
    assert max(drawn[0]) > 60, "not just the first ones"


def test_all_examples_once(tiny, kit):
    source = prepare_training(tiny(), kit).sources.held_out("test", 50)
    assert sorted(index for batch in source.batches() for index in batch.indices) == list(range(10))


def test_examples_that_are_too_long_are_counted(tiny, kit):
    prepared = prepare_training(tiny("model.length=6"), kit)
    assert prepared.train_source.left_out > 0
    batches = list(prepared.sources.held_out("train", 200).batches())
    longest = max(side.ids.shape[1] for batch in batches for side in (batch.source, batch.target) if side is not None)
    assert longest == 6


@pytest.mark.parametrize(
    ("objective", "masks"), [("causal", "[causal]"), ("causal", "[causal, document]"), ("prefix", "[prefix]")]
)
def test_windows_say_how_much_they_predict(tiny, kit, tmp_path, objective, masks):
    overrides = [*DECODER, TEXT, f"training.objective={objective}", f"model.decoder.masks={masks}", "model.length=12"]
    prepared = prepare_training(tiny(*overrides), kit, tmp_path)
    assert isinstance(prepared.train_source.rows, DocumentRows) == ("document" in masks)
    _as_counted(prepared)


def test_blocks_are_as_long_as_the_model_reads(tiny, kit, tmp_path):
    prepared = prepare_training(tiny(*ENCODER, TEXT, "model.length=12"), kit, tmp_path)
    batch = prepared.train_source.rows[shard_of(prepared.train_source.sampler, 0)]
    assert batch.source is not None and batch.source.ids.shape[1] == 12
    _as_counted(prepared)


def _as_counted(prepared) -> None:
    for step in range(5):
        batch = prepared.train_source.rows[shard_of(prepared.train_source.sampler, step)]
        assert prepared.objective.loss(prepared.model, batch).num_predictions == batch.global_tokens
    for batch in prepared.sources.held_out("validation", 60).batches():
        assert prepared.objective.loss(prepared.model, batch).num_predictions == batch.global_tokens
