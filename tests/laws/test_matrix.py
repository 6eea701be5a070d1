"""Every combination of parts builds, trains and writes with a state, or is refused with a reason that names two."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from kit import Kit, RecipeError
from kit.laws.matrix import AXES, FAMILIES, KINDS, Combination, Matrix
from kit.laws.matrix_run import run
from kit.laws.matrix_text import markdown, tables

KIT = Kit()
MATRIX = Matrix(KIT.registry)
ROOT = Path(__file__).parents[2]
SAMPLE = 150
PAIRS = [
    pytest.param(one, name, other, id=f"{one}-{name}-{other}")
    for number, one in enumerate(KINDS)
    for other in (*KINDS[number + 1 :], "family")
    for name in MATRIX.names(one)
]


def walk(chosen: Combination) -> str | None:
    """Build, train and write; what is said against it, where it is refused when the recipe is read."""
    torch.manual_seed(0)
    try:
        recipe = KIT.recipe({"name": "matrix", "model": MATRIX.recipe(chosen)})
    except RecipeError as error:
        messages = [problem.message for problem in error.problems]
        named = [{side for side in chosen.names_in_refusals if side in message} for message in messages]
        assert max(map(len, named)) >= 2, f"{chosen} is refused without naming two sides: {messages}"
        assert not any("could be built but not run" in message for message in messages), f"{chosen}: {messages}"
        assert MATRIX.check(chosen), f"{chosen}: the matrix says yes, and the recipe is refused: {messages}"
        return "\n".join(messages)
    assert not MATRIX.check(chosen)
    run(MATRIX, chosen, KIT.build(recipe))
    return None


def alone(axis: str, name: str) -> set[str]:
    """The families that take a part beside neutral ones."""
    chosen = replace(MATRIX.neutral, **{axis: name})
    return {family for family in FAMILIES if not MATRIX.check(replace(chosen, family=family))}


@pytest.mark.parametrize(("one", "name", "other"), PAIRS)
def test_two_parts_go_together_or_are_refused_by_name(one: str, name: str, other: str) -> None:
    """Each pair in one family that takes both, another one for the next pair; each part in every family."""
    for number, second in enumerate(MATRIX.names(other)):
        chosen = replace(MATRIX.neutral, **{one: name, other: second})
        if other == "family":
            walk(chosen)
            continue
        families = [family for family in FAMILIES if family in alone(one, name) & alone(other, second)]
        if not families:
            for family in FAMILIES:
                assert walk(replace(chosen, family=family)) is not None
            continue
        refusal = walk(replace(chosen, family=families[number % len(families)]))
        if refusal is not None:
            assert name in refusal and second in refusal, f"{name} and {second}: {refusal}"


def sample() -> list[Combination]:
    chance = random.Random(20)
    names = {axis: MATRIX.names(axis) for axis in AXES}
    return [Combination(**{axis: chance.choice(names[axis]) for axis in AXES}) for _ in range(SAMPLE)]


@pytest.mark.parametrize("part", range(10))
def test_a_sample_of_full_combinations(part: int) -> None:
    for chosen in sample()[part::10]:
        walk(chosen)


def test_the_sample_is_not_all_refused() -> None:
    built = [chosen for chosen in sample() if not MATRIX.check(chosen)]
    assert len(built) >= SAMPLE // 4


def test_the_page_of_the_documentation_is_up_to_date() -> None:
    """Write it anew with: kit matrix --write docs/compatibility.md"""
    assert (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8") == markdown(MATRIX)


def test_neutral_parts_refuse_nobody_for_their_own_sake() -> None:
    for table in tables(MATRIX, ("residual", "family")):
        assert table.is_full


@pytest.mark.parametrize("arguments", [["attention", "family"], ["--json"]], ids=" ".join)
def test_the_command_prints_it(arguments: list[str], capsys: Any) -> None:
    from typer.testing import CliRunner

    from kit.cli.main import app

    result = CliRunner().invoke(app, ["matrix", *arguments])
    assert result.exit_code == 0, result.output
    assert "cannot go on token by token, and the decoder writes that way" in result.output
