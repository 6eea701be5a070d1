"""Whoever follows docs/how-to/export.md with what lies in an export gets what `kit predict` gives, for every task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from documentation.blocks import DOCS, blocks
from models.tiny_models import KIT
from runs.tiny_runs import CLASSES, MASKED, PAIRS, PREFIXED, TEXTS, trained

from kit import export, load

np = pytest.importorskip("numpy")
PAGE = [block for block in blocks(DOCS / "how-to" / "export.md") if "tests/exporting plays it" in block.what]


class Case(NamedTuple):
    recipe: str
    block: str
    frames: dict[str, tuple[list[int], list[int], int, str, dict[str, int]]]
    """What stands before and after the ids of each side, the most of them, which are kept, and the features."""
    texts: tuple[str, ...]
    """Texts beside that of the example."""


CASES = {
    "translation": Case(
        PAIRS,
        "seq2seq",
        {"source": ([], [2], 15, "first", {}), "target": ([1], [], 15, "first", {})},
        ("b a", "a b c a b c a b c a b c a b c a b c a b c"),
    ),
    "translation in one stack": Case(
        PREFIXED, "generate", {"target": ([1], [5], 16, "first", {"prefix": 1})}, ("b a", "c")
    ),
    "continuation": Case(
        TEXTS, "generate", {"target": ([1], [], 11, "last", {})}, ("the dog", "a cat and a dog sat on the mat", "")
    ),
    "classification": Case(
        CLASSES, "classify", {"source": ([1], [2], 10, "first", {})}, ("grass leaf", "sea", "blood rose sky " * 6)
    ),
    "fill-in": Case(
        MASKED,
        "fill_mask",
        {"source": ([1], [2], 14, "first", {})},
        ("the dog ___ on the log.", "___ cat", "a cat ___"),
    ),
}


def code(task: str) -> str:
    (found,) = [block.text for block in PAGE if block.what.endswith(task)]
    return found


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_page_leads_to_what_predict_gives(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package)
    run = trained(case.recipe, tmp_path, "training.steps=40")
    done = export(run, "onnx", output=tmp_path / "exported", kit=KIT)
    monkeypatch.chdir(done.folder)
    names: dict[str, Any] = {}
    exec(code("each task"), names)
    about, given = names["about"], {}
    assert {
        side: (it["before"], it["after"], it["longest"], it["kept"], it["features"])
        for side, it in about["frames"].items()
    } == case.frames
    inputs = names["inputs"]

    def recorded(*arguments: Any) -> Any:
        found = inputs(*arguments)
        given.update({name: value.tolist() for name, value in found.items() if name not in given})
        return found

    example, names["inputs"] = about["example"], recorded
    predictor = load(run, KIT, device="cpu")
    search = "greedy" if case.block in ("seq2seq", "generate") else None
    for text in (example["text"], *case.texts):
        given.clear()
        names["text"] = text
        exec(code(case.block), names)
        (wanted,) = predictor.predict([text], search=search)
        assert names["answer"] == wanted.text
        if text == example["text"]:
            output = example["output"]
            assert given == example["inputs"]
            assert wanted.text.startswith(output["text"])
            if case.block == "classify":
                assert np.allclose(names["logits"][0], output["logits"], atol=1e-4)
                assert output["score"] == pytest.approx(wanted.outputs[0].score, abs=1e-5)
            else:
                assert output["tokens"][: len(names["tokens"])] == names["tokens"][: len(output["tokens"])]


def test_ctranslate2_is_given_a_text_without_its_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ctranslate2")
    run = trained(PAIRS, tmp_path, "training.steps=40")
    monkeypatch.chdir(export(run, "ctranslate2", output=tmp_path / "exported", kit=KIT).folder)
    names: dict[str, Any] = {}
    exec(code("each task"), names)
    for text in (names["about"]["example"]["text"], *CASES["translation"].texts):
        names["text"] = text
        exec(code("ctranslate2"), names)
        assert names["answer"] == load(run, KIT, device="cpu").predict([text], search="greedy")[0].text


def test_the_example_is_made_where_the_data_is_gone(tmp_path: Path) -> None:
    run = trained(CLASSES, tmp_path, "training.steps=2")
    (tmp_path / "labels.tsv").unlink()
    done = export(run, "safetensors", output=tmp_path / "exported", kit=KIT)
    assert done.compared_on.startswith("random tokens")
    example = json.loads((done.folder / "export.json").read_text())["example"]
    assert example["text"] and example["inputs"]["source"][0][0] == 1 and example["inputs"]["source"][0][-1] == 2
