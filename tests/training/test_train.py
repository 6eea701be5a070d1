"""What a training leaves behind, when it ends, and what it never does."""

from __future__ import annotations

import json
import pickle
import types
import warnings
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as lightning
import torch

from kit import Kit, hookimpl
from kit.checkpoints.store import CheckpointStore
from kit.files.tensors import read_tensors
from kit.runs.lock import Lock
from kit.runs.metrics_file import MetricsFile, summarize
from kit.training.nan_check import NonFiniteLoss
from kit.training.preparation import prepare_training
from kit.training.progress import SilentReporter
from kit.training.train import new_run, train
from kit.training.weight_averaging import EMA


class Listener(SilentReporter):
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


def with_callback(callback: lightning.Callback) -> Kit:
    """A kit with one more plugin, which adds a callback to every training."""
    plugin = types.ModuleType("meddling")
    plugin.kit_api = 1  # type: ignore[attr-defined]

    @hookimpl
    def kit_callbacks(recipe: Any) -> list[Any]:
        return [callback]

    plugin.kit_callbacks = kit_callbacks  # type: ignore[attr-defined]
    return Kit(plugins=[plugin])


def store_of(run) -> CheckpointStore:
    return CheckpointStore(run.checkpoints, Lock.read(run.lock).run)


def test_a_run_holds_all_that_it_should(tiny, kit):
    result = train(tiny(), kit)
    run = result.run
    assert (result.ending, result.step, result.steps) == ("finished", 10, 10)
    assert summarize(run).state == "finished"
    assert kit.recipe(run.recipe) == tiny()
    assert Lock.read(run.lock).seed == 0
    assert (run.tokenizer / "tokenizer.json").is_file()
    assert [int(row["step"]) for row in MetricsFile(run.metrics).rows()] == list(range(1, 11))
    assert {row["step"] for row in MetricsFile(run.metrics).rows() if row["validation_loss"]} == {"4", "8", "10"}
    report = json.loads((run.reports / "test.json").read_text())
    assert result.evaluation is not None and report["figures"] == result.evaluation.figures
    assert len((run.reports / "test_answers.jsonl").read_text().splitlines()) == 10
    assert read_tensors(run.weights).keys() == prepare_training(tiny(), kit).model.state_dict().keys()


def test_learning_happens(tiny, kit):
    easy = ["data.train=500", "data.max_length=3", "model.dropout=0"]
    recipe = tiny("training.steps=60", "training.validate_every=60", *easy)
    rows = MetricsFile(train(recipe, kit).run.metrics).rows()
    assert float(rows[-1]["loss"]) < 0.6 * float(rows[0]["loss"])


@pytest.mark.parametrize(
    "change", ["data=copy", "data={use: listops, max_depth: 1, max_length: 20}"], ids=["pairs", "classes"]
)
def test_pieces_of_a_batch_average_to_the_whole(tiny, kit, change):
    """What is true of accumulated pieces is true of processes: both are shares of one global batch."""
    same = [change, "data.train=60", "data.validation=5", "data.test=5", "training.steps=4", "model.dropout=0"]
    if "listops" in change:
        same += ["model.family=encoder", "model.decoder=null", "model.head={use: classes, classes: 10}"]
        same += ["model.tie=none", "training.metrics=[accuracy]"]
    losses = []
    for pieces in (1, 2, 5):
        run = train(tiny(*same, f"training.accumulate_steps={pieces}"), kit).run
        losses.append([(float(row["loss"]), float(row["gradient_norm"])) for row in MetricsFile(run.metrics).rows()])
    for other in losses[1:]:
        assert torch.allclose(torch.tensor(other), torch.tensor(losses[0]), rtol=1e-4)


def test_the_best_checkpoint_is_kept_and_used(tiny, kit):
    recipe = tiny(
        "training.optimizer.learning_rate=3.0",
        "training.validate_every=1",
        "training.keep_checkpoints=1",
        "training.clip_grad_norm=null",
    )
    run = train(recipe, kit).run
    scores = {int(row["step"]): float(row["validation_loss"]) for row in MetricsFile(run.metrics).rows()}
    best = min(scores, key=scores.__getitem__)
    assert best < 10, "such a rate makes things worse"
    assert set(store_of(run).steps()) == {best, 10}
    kept = read_tensors(run.weights)
    for name, value in store_of(run).load(best).weights.items():
        assert torch.equal(value, kept[name])


def test_patience_ends_a_training(tiny, kit):
    recipe = tiny("training.optimizer.learning_rate=1.0e-30", "training.validate_every=2", "training.patience=2")
    result = train(recipe, kit)
    assert (result.ending, result.step) == ("stopped early", 6)
    assert result.run.weights.is_file() and summarize(result.run).state == "finished"
    again = train(recipe, kit, result.run)
    assert (again.ending, again.step) == ("stopped early", 6)


def test_the_mean_of_the_last_checkpoints(tiny, kit):
    run = train(tiny("training.average={last: 3}", "training.checkpoint_every=2", "data.validation=1"), kit).run
    store = store_of(run)
    last = [store.load(step).weights for step in store.steps()[-3:]]
    for name, value in read_tensors(run.weights).items():
        assert torch.allclose(value, sum(weights[name] for weights in last) / 3, atol=1e-7)


def test_the_mean_is_of_regular_checkpoints_and_the_last(tiny, kit):
    """A new best, after step 4, is saved in between and not counted."""
    run = train(
        tiny("training.average={last: 4}", "training.checkpoint_every=3", "training.keep_checkpoints=9"), kit
    ).run
    store = store_of(run)
    assert 4 in store.steps()
    regular = [store.load(step).weights for step in (3, 6, 9, 10)]
    for name, value in read_tensors(run.weights).items():
        assert torch.allclose(value, sum(weights[name] for weights in regular) / 4, atol=1e-7)


def test_a_moving_average_by_hand():
    model = torch.nn.Linear(1, 1, bias=False, dtype=torch.float64)
    with torch.no_grad():
        model.weight.fill_(1.0)
    average = EMA(model, 0.5)
    expected = 1.0
    for step, value in enumerate((3.0, 5.0, -2.0), start=1):
        with torch.no_grad():
            model.weight.fill_(value)
        average.update(step)
        kept = min(0.5, (1 + step) / (10 + step))
        expected = kept * expected + (1 - kept) * value
    assert average.values["weight"].item() == pytest.approx(expected)
    with average.swapped_in():
        assert model.weight.item() == pytest.approx(expected)
    assert model.weight.item() == -2.0


class Poison(lightning.Callback):
    """InterruptibleEvaluation one weight before a step."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.before: dict[str, torch.Tensor] = {}
        self.after: dict[str, torch.Tensor] = {}

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if batch_idx == self.at:
            with torch.no_grad():
                pl_module.model.decoder.stack.layers[0].feedforward.up.weight[0, 0] = float("nan")
            self.before = {name: value.clone() for name, value in pl_module.model.state_dict().items()}

    def on_exception(self, trainer, pl_module, exception):
        self.after = {name: value.clone() for name, value in pl_module.model.state_dict().items()}


def test_a_loss_that_is_not_finite_stops_in_the_same_step_and_changes_nothing(tiny, tmp_path):
    poison = Poison(at=6)
    kit = with_callback(poison)
    run = new_run(tiny(), kit)
    with pytest.raises(NonFiniteLoss) as caught:
        train(tiny(), kit, run)
    text = str(caught.value)
    assert "step 7 is not finite" in text
    assert "decoder.stack.layers.0.feedforward.up, a Linear (its weight weight is not finite)" in text
    first = prepare_training(tiny(), kit).train_source.sampler.batch_at(6)
    assert f"examples (or offsets) {', '.join(map(str, first[:12]))}" in text
    for name, value in poison.before.items():
        assert torch.equal(value.nan_to_num(9), poison.after[name].nan_to_num(9))
    assert len(MetricsFile(run.metrics).rows()) == 6
    assert store_of(run).steps() == [4, 5]
    assert train(tiny(), Kit(), run).ending == "finished"


class BrokenGradient(lightning.Callback):
    """InterruptibleEvaluation a gradient only."""

    def on_train_start(self, trainer, pl_module):
        weight = pl_module.model.encoder.stack.layers[0].feedforward.down.weight
        weight.register_hook(lambda gradient: gradient * float("inf"))


def test_a_gradient_that_is_not_finite_is_named(tiny):
    with pytest.raises(
        NonFiniteLoss, match=r"the gradient of encoder\.stack\.layers\.0\.feedforward\.down\.weight is not"
    ):
        train(tiny(), with_callback(BrokenGradient()))


def test_nothing_is_pickled(tiny, kit, monkeypatch):
    def refuse(*arguments: Any, **named: Any) -> None:
        raise AssertionError("something was pickled or unpickled")

    run = new_run(tiny(), kit)
    for module, name in ((torch, "save"), (torch, "load"), (pickle, "dump"), (pickle, "load"), (pickle, "loads")):
        monkeypatch.setattr(module, name, refuse)
    train(tiny("training.steps=3"), kit, run)
    train(tiny("training.steps=5"), kit, run)


def test_no_warning_and_no_advice(tiny, kit, capfd):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(tiny("training.steps=2"), kit)
    assert capfd.readouterr() == ("", "")


def test_what_changed_since_a_run_began_is_said(tiny, kit):
    run = train(tiny("training.steps=2"), kit).run
    listener = Listener()
    train(kit.recipe(run.recipe, ["training.seed=5"]), kit, run, reporter=listener)
    assert "not as when the run began: the seed was 0, is 5" in listener.said


def test_data_without_held_out_splits(tiny, kit, tmp_path: Path):
    (tmp_path / "pairs.tsv").write_text("".join(f"{n} {n}\t{n}\n" for n in range(20)))
    recipe = tiny("data={use: parallel_text, train: pairs.tsv}")
    result = train(recipe, kit, folder=tmp_path)
    assert result.ending == "finished" and result.evaluation is None
    last = store_of(result.run).load(10).weights
    assert all(torch.equal(value, last[name]) for name, value in read_tensors(result.run.weights).items())
