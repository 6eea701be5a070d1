"""A run is exported whole, compared, and described; what goes wrong leaves nothing behind."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest
import torch
from models.tiny_models import KIT
from runs.tiny_runs import PAIRS, TEXTS, trained
from typer.testing import CliRunner

from kit import (
    Exportable,
    ExportCheck,
    Exporter,
    Kit,
    KitError,
    Options,
    Predictor,
    RecipeError,
    export,
    hookimpl,
    load_run,
)
from kit.cli.main import app
from kit.runs.run_directory import RunDirectory, RunError


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return trained(PAIRS, tmp_path_factory.mktemp("pairs"))


class TouchOptions(Options):
    use: Literal["touch"] = "touch"
    difference: float = 0.0
    """What it says it found."""


class TouchExporter(Exporter):
    options_type = TouchOptions

    def write(self, subject: Exportable, folder: Path) -> None:
        (folder / "touched").write_text("yes")

    def verify(self, subject: Exportable, folder: Path) -> Sequence[ExportCheck]:
        assert (folder / "touched").is_file()
        self.seen = subject
        return [ExportCheck("nothing", self.options.difference, 0.5)]


class Plugin:
    kit_api = 1

    @hookimpl
    def kit_components(self) -> list[type[Exporter]]:
        return [TouchExporter]


def test_a_stranger_can_bring_an_exporter(pairs: RunDirectory, tmp_path: Path) -> None:
    done = export(pairs, "touch", ["difference=0.25"], output=tmp_path / "out", kit=Kit([Plugin()]))
    assert [str(file) for file in done.files] == ["export.json", "recipe.yaml", "tokenizer/tokenizer.json", "touched"]
    assert done.compared_on == "held-out examples"
    about = json.loads((tmp_path / "out" / "export.json").read_text())
    assert about["exporter"] == {"use": "touch", "difference": 0.25} and about["checks"][0]["difference"] == 0.25


@pytest.mark.parametrize("difference", [0.75, float("nan")])
def test_what_does_not_compare_is_not_kept(pairs: RunDirectory, tmp_path: Path, difference: float) -> None:
    with pytest.raises(KitError, match="is not the model, and was removed"):
        export(pairs, TouchOptions.model_construct(difference=difference), output=tmp_path / "out", kit=Kit([Plugin()]))
    assert list(tmp_path.iterdir()) == []


def test_samples_are_real_texts_of_several_sizes(pairs: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    from kit.exporting.sampling import samples_of

    opened = load_run(pairs, KIT, device="cpu")
    predictor = Predictor(opened)
    samples, where = samples_of(predictor)
    assert where == "held-out examples"
    shapes = [(it.source.ids.shape, it.target.ids.shape) for it in samples if it.source and it.target]
    assert {rows for (rows, _), _ in shapes} == {1, 2, 3, 8} and len({length for (_, length), _ in shapes}) > 1
    assert any(it.source is not None and it.source.padding_mask is not None for it in samples)
    monkeypatch.setattr(type(opened.parts), "data", lambda self: 1 / 0)
    assert samples_of(predictor)[1].startswith("random tokens")


def test_a_folder_that_is_there_is_left_alone(pairs: RunDirectory, tmp_path: Path) -> None:
    with pytest.raises(KitError, match="is there already"):
        export(pairs, "safetensors", output=tmp_path, kit=KIT)


def test_a_run_without_checkpoints_is_a_run(pairs: RunDirectory, tmp_path: Path) -> None:
    for numbers in ("float32", "bfloat16"):
        done = export(pairs, "safetensors", [f"numbers={numbers}"], output=tmp_path / numbers, kit=KIT)
        assert (done.checks[0].difference == 0) == (numbers == "float32")
        again, before = load_run(tmp_path / numbers, KIT), load_run(pairs, KIT)
        for name, value in again.model.state_dict().items():
            assert torch.allclose(value, before.model.state_dict()[name], rtol=0.01 if numbers == "bfloat16" else 0)
    sizes = [(tmp_path / numbers / "weights.safetensors").stat().st_size for numbers in ("float32", "bfloat16")]
    assert sizes[1] < 0.6 * sizes[0]


@pytest.mark.parametrize("numbers", ["float32", "bfloat16"])
def test_damage_to_exported_weights_is_noticed(pairs: RunDirectory, tmp_path: Path, numbers: str) -> None:
    done = export(pairs, "safetensors", [f"numbers={numbers}"], output=tmp_path / "out", kit=KIT)
    assert Path("weights.safetensors.sha256") in done.files
    made = RunDirectory(done.folder)
    digest = hashlib.sha256(made.weights.read_bytes()).hexdigest()
    assert made.weights_digest.read_text() == f"{digest}  weights.safetensors\n"
    data = bytearray(made.weights.read_bytes())
    data[-1] ^= 1
    made.weights.write_bytes(data)
    with pytest.raises(RunError, match=r"(?s)does not hold what was written.*take another copy of the run"):
        load_run(made, KIT)


def test_mistakes_are_told_with_what_to_type(pairs: RunDirectory) -> None:
    with pytest.raises(KitError, match=r"no exporter is called 'onx'\n    did you mean onnx"):
        export(pairs, "onx", kit=KIT)
    with pytest.raises(RecipeError, match=r"wanted one of float32, .*\n    did you mean int8"):
        export(pairs, "ctranslate2", ["quantization=int"], kit=KIT)
    with pytest.raises(RecipeError, match=r"quantisation.*\n    did you mean quantization"):
        export(pairs, "ctranslate2", ["quantisation=int8"], kit=KIT)


def test_a_refusal_points_into_the_recipe_of_the_run(tmp_path: Path) -> None:
    recipe = TEXTS.replace("use: softmax, heads: 2", "use: window, heads: 2, size: 4").replace("steps: 60", "steps: 1")
    run = trained(recipe, tmp_path)
    with pytest.raises(RecipeError, match=r"recipe\.yaml:\d+: model\.decoder\.attention: the attention window"):
        export(run, "ctranslate2", kit=KIT)
    assert not list((run.path / "exports").iterdir())


def test_the_command_says_what_it_wrote_and_how_it_compares(pairs: RunDirectory, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    arguments = ["export", str(pairs.path), "--to", "ctranslate2", "quantization=int8", "--output", str(tmp_path / "x")]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    for word in ("model.bin", "log-probabilities of", "largest difference", "compared on held-out examples"):
        assert word in result.output
    result = CliRunner().invoke(app, [*arguments[:-1], str(tmp_path / "y"), "--json"], catch_exceptions=False)
    found = json.loads(result.output)
    assert "model.bin" in found["files"] and found["checks"][0]["difference"] < found["checks"][0]["limit"]
    assert (tmp_path / "y" / "source_vocabulary.json").is_file() or (
        tmp_path / "y" / "shared_vocabulary.json"
    ).is_file()
