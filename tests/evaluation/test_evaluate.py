"""Runs are measured on their own data, on changes of it and on files, and compared example by example."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from models.tiny_models import KIT
from runs import tiny_runs

from kit import KitError, LoadedRun, load_run
from kit.evaluation.comparison import compare
from kit.evaluation.evaluate import eval_source, evaluate_run, named_metrics
from kit.evaluation.report import report

KINDS = {"pairs": tiny_runs.PAIRS, "texts": tiny_runs.TEXTS, "classes": tiny_runs.CLASSES, "masked": tiny_runs.MASKED}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("runs")
    with tiny_runs.alone(path):
        yield path


@pytest.fixture(scope="module")
def runs(folder: Path) -> dict[str, LoadedRun]:
    found = {name: load_run(tiny_runs.trained(recipe, folder).path, KIT) for name, recipe in KINDS.items()}
    poor = tiny_runs.trained(tiny_runs.PAIRS, folder, "training.steps=1", "training.seed=1")
    return found | {"poor": load_run(poor.path, KIT)}


@pytest.mark.parametrize("name", sorted(KINDS))
def test_the_figures_are_those_of_the_end_of_training(runs: dict[str, LoadedRun], name: str) -> None:
    run = runs[name]
    source = eval_source(run)
    found = report(evaluate_run(run, source, named_metrics(run)), source)
    written = json.loads((run.run.reports / f"{source.name}.json").read_text())
    assert {it.name: it.value for it in found.figures} == pytest.approx(written["figures"], rel=1e-5)
    for it in found.figures:
        assert it.interval is not None and it.interval[0] <= it.value <= it.interval[1]


def test_examples_are_told_apart_and_sum_to_the_whole(runs: dict[str, LoadedRun]) -> None:
    for run in runs.values():
        source = eval_source(run)
        results = evaluate_run(run, source, named_metrics(run)).evaluation.results
        assert results is not None and len(results.examples) > 1
        assert sum(it.nll_sum for it in results.examples) == pytest.approx(results.nll_sum, rel=1e-4)
        assert sum(it.num_predictions for it in results.examples) == results.num_predictions
        assert sum(it.correct for it in results.examples) == results.correct
        assert [answer for it in results.examples for answer in it.answers] == list(results.answers)


def test_a_run_is_measured_on_files(runs: dict[str, LoadedRun], folder: Path) -> None:
    pairs = folder / "given.tsv"
    pairs.write_text("1 2\t1 2\n3\t0\t3\n4 4\t5\n")
    source = eval_source(runs["pairs"], [str(pairs)])
    found = evaluate_run(runs["pairs"], source, named_metrics(runs["pairs"]))
    assert source.name == "given"
    assert [it.source for it in found.evaluation.answers] == ["1 2", "3", "4 4"]
    assert found.evaluation.figures["exact"] == pytest.approx(2 / 3), "the second of two targets is right too"
    (folder / "given.en").write_text("1 2\n3\n")
    (folder / "given.de").write_text("1 2\n3\n")
    two = eval_source(runs["pairs"], [str(folder / "given.en"), str(folder / "given.de")])
    assert evaluate_run(runs["pairs"], two, named_metrics(runs["pairs"])).evaluation.figures["exact"] == 1
    labels = folder / "others.tsv"
    labels.write_text("red\tblood rose blood\nblue\tgrass leaf leaf\n")
    source = eval_source(runs["classes"], [str(labels)])
    assert evaluate_run(runs["classes"], source, named_metrics(runs["classes"])).evaluation.figures["accuracy"] == 0.5


def test_what_cannot_be_measured_is_told(runs: dict[str, LoadedRun], folder: Path) -> None:
    run = runs["pairs"]
    with pytest.raises(KitError, match="there is no file nowhere"):
        eval_source(run, ["nowhere.tsv"])
    with pytest.raises(KitError, match="has no split 'tset'; it has train, validation, test"):
        eval_source(run, split="tset")
    with pytest.raises(KitError, match="did you mean bleu"):
        named_metrics(run, ["blue"])
    (folder / "bare.tsv").write_text("1 2\n")
    with pytest.raises(KitError, match=r"bare.tsv:1: source, tab and target were wanted"):
        evaluate_run(run, eval_source(run, [str(folder / "bare.tsv")]), named_metrics(run))
    with pytest.raises(KitError, match="found 2 files; wanted a file with a label"):
        eval_source(runs["classes"], [str(folder / "bare.tsv")] * 2)


def test_longer_examples_than_the_run_knew(runs: dict[str, LoadedRun]) -> None:
    run = runs["pairs"]
    source = eval_source(run, ["data.test_max_length=20"])
    found = evaluate_run(run, source, named_metrics(run))
    assert found.left_out > 0 and found.left_out + len(found.evaluation.indices) == 40
    assert found.evaluation.figures["exact"] < 0.5, "lengths that it never saw"


def test_the_better_run_is_named_and_the_same_run_is_not(runs: dict[str, LoadedRun]) -> None:
    source, metrics = eval_source(runs["pairs"]), named_metrics(runs["pairs"])
    good, poor = (evaluate_run(runs[name], source, metrics) for name in ("pairs", "poor"))
    found = compare(poor, good)
    assert found.examples == 40 and [it.name for it in found.figures] == ["loss", "exact", "token_error"]
    assert all(it.significant and it.second_is_better for it in found.figures)
    assert "pairs/1 is better" in found.sentence(found.figures[1])
    same = compare(good, good)
    assert not any(it.significant for it in same.figures)
    assert "not decided between" in same.sentence(same.figures[0])


def test_figures_of_different_tokens_are_not_compared(runs: dict[str, LoadedRun], folder: Path) -> None:
    other = tiny_runs.trained(tiny_runs.PAIRS, folder, "training.steps=1", "tokenizer=characters")
    source, metrics = eval_source(runs["pairs"]), named_metrics(runs["pairs"])
    found = compare(
        evaluate_run(runs["pairs"], source, metrics), evaluate_run(load_run(other.path, KIT), source, metrics)
    )
    assert [it.name for it in found.figures] == ["exact", "token_error"]
    assert found.notes == ["loss is not compared: the runs predict different tokens"]
