"""`kit plugin check` calls nothing «in order» that it could not try, and tries parts with the examples they bring."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import pytest
from pydantic import Field
from torch import Tensor
from typer.testing import CliRunner

from kit import (
    BatchLayout,
    BuildContext,
    Cache,
    Capabilities,
    Data,
    Dims,
    Example,
    Kit,
    MultiHeadAttention,
    MultiHeadOptions,
    Options,
    Split,
    Stack,
    StackSlot,
    Task,
    digest_of,
    hookimpl,
    laws,
)
from kit.cli.main import app
from kit.laws import LAWS, Package
from kit.plugin.validation import part_problems
from kit_author.command import _print_report
from kit_author.examination import PackageReport, examine


class LinesOptions(Options):
    use: Literal["some_lines"] = "some_lines"
    file: str = Field(pattern=r"\.txt$")


class LinesData(Data):
    """The lines of a file, which has to be there."""

    options_type = LinesOptions
    options: LinesOptions

    @property
    def task(self) -> Task:
        return "text"

    def splits(self) -> tuple[Split, ...]:
        return ("train",)

    def open(self, split: Split) -> Sequence[Example]:
        return [Example(line) for line in Path(self.options.file).read_text().splitlines()]

    def fingerprint(self) -> str:
        return digest_of(Path(self.options.file).read_text())


class FileOptions(LinesOptions):
    file: str = "nowhere/to/be/found.txt"


class FileData(LinesData):
    options_type = FileOptions


def checked(*parts: type) -> PackageReport:
    module = ModuleType("kit_mine")
    module.kit_api = 1  # type: ignore[attr-defined]
    module.kit_components = hookimpl(lambda: list(parts))  # type: ignore[attr-defined]
    kit = Kit(plugins=[module])
    own = tuple(plugin for plugin in kit.plugins if any(part.component in parts for part in plugin.parts))
    return examine(Package("kit-mine", kit, own), timed=False)


@pytest.mark.parametrize(
    ("component", "reason"),
    [(FileData, "its data is not here"), (LinesData, "no options can be made up: file: ")],
    ids=["missing", "unguessable"],
)
def test_data_that_is_not_here_is_not_in_order(
    component: type[LinesData], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    report = checked(component)
    assert [part.title for part in report.untried] == ["data some_lines"]
    _print_report(report)
    told = capsys.readouterr().out
    assert f"not tried: {reason}" in told.replace("LinesData cannot be tried, since ", "")
    assert "examples = ({...},)" in told
    assert told.rstrip().endswith("kit-mine: 1 part, not tried: data some_lines") and "in order" not in told
    data = report.as_data()
    assert data["untried"] == ["data some_lines"] and reason in data["parts"][0]["untried"]


def test_a_part_is_tried_with_its_own_examples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("one\ntwo\n")
    found: list[str] = []

    class AnyNameOptions(LinesOptions):
        file: str

    class WithExamples(LinesData):
        options_type = AnyNameOptions
        examples: Sequence[Mapping[str, Any]] = ({"file": str(file)},)  # type: ignore[misc]

        def prepare(self) -> None:
            found.append(self.options.file)

    report = checked(WithExamples)
    assert report.parts[0].laws is not None
    assert {verdict.outcome for verdict in report.parts[0].laws} == {"passed"}
    assert set(found) == {str(file)}, "what is not there is not guessed beside what is"
    _print_report(report)
    assert capsys.readouterr().out.rstrip().endswith("1 part, in order")


def test_examples_are_tried_beside_defaults_that_work(tmp_path: Path) -> None:
    for name in ("default.txt", "example.txt"):
        (tmp_path / name).write_text("one\ntwo\n" if name == "default.txt" else "")

    class DefaultOptions(LinesOptions):
        file: str = str(tmp_path / "default.txt")

    class TwoFiles(LinesData):
        options_type = DefaultOptions
        examples: Sequence[Mapping[str, Any]] = ({"file": str(tmp_path / "example.txt")},)  # type: ignore[misc]

    (failure,) = laws.check(TwoFiles, Kit(), [LAWS["data.examples"]]).failures
    assert "example.txt" in failure.message and "the train split is empty" in failure.message


def test_an_example_that_the_options_refuse_is_named() -> None:
    class Mistaken(LinesData):
        examples: Sequence[Mapping[str, Any]] = ({"fil": "lines.txt"},)  # type: ignore[misc]

    (failure, *_) = laws.check(Mistaken, Kit()).failures
    assert "Mistaken.examples has {'fil': 'lines.txt'}: " in failure.message


class WrappingOptions(Options):
    use: Literal["wrapping"] = "wrapping"
    inner: StackSlot


class WrappingStack(Stack):
    """A stack around a stack that a recipe names."""

    options_type = WrappingOptions

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.inner: Stack = build_context.at("inner").build(options.inner, dims)

    @classmethod
    def check(cls, options: Any, dims: Dims, build_context: BuildContext) -> Any:
        yield from build_context.at("inner").check(options.inner, dims)

    def forward(self, x: Tensor, layout: BatchLayout, *given: Any) -> Tensor:
        out: Tensor = self.inner(x, layout, *given)
        return out

    def start(self) -> Cache:
        return self.inner.start()


def test_a_part_with_a_required_stack_is_tried_around_one() -> None:
    chosen = [LAWS[f"stack.{name}"] for name in ("shape", "causality", "cache_reorder")]
    report = laws.check(WrappingStack, Kit(), chosen)
    assert [verdict.outcome for verdict in report] == ["passed"] * 3, str(report)


def test_a_part_with_a_required_stack_where_none_is_installed_is_not_tried() -> None:
    (verdict,) = laws.check(WrappingStack, Kit(only=["norm"]), [LAWS["stack.shape"]])
    assert verdict.outcome == "not claimed" and "cannot be tried" in verdict.message and "inner" in verdict.message


class MineOptions(MultiHeadOptions):
    use: Literal["mine"] = "mine"


@pytest.mark.parametrize(
    ("capabilities", "problem"),
    [
        (Capabilities(masks=frozenset({"casual"})), "masks has 'casual'; wanted 'causal' or 'pairs'"),  # type: ignore[arg-type]
        (Capabilities(positions=frozenset({"rotary"})), "positions has 'rotary'; wanted 'embed', "),  # type: ignore[arg-type]
        (Capabilities(cost="lineer"), "cost has 'lineer'; wanted 'linear' or 'quadratic'"),  # type: ignore[arg-type]
        (Capabilities(masks=frozenset({"causal"}), cost="linear"), ""),
    ],
    ids=["mask", "position", "cost", "sound"],
)
def test_a_misspelt_capability_is_refused_with_what_may_be_written(capabilities: Capabilities, problem: str) -> None:
    class Mine(MultiHeadAttention):
        options_type = MineOptions

    Mine.capabilities = capabilities
    found = list(part_problems([Mine]))
    assert len(found) == bool(problem)
    assert all(it.startswith("Mine.capabilities: ") and problem in it for it in found)


def test_a_command_line_says_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kit_author.examination.examine", lambda *given, **options: checked(FileData))
    told = CliRunner().invoke(app, ["plugin", "check", "kit_norm", "--json"])
    assert told.exit_code == 0 and json.loads(told.stdout)["untried"] == ["data some_lines"]
