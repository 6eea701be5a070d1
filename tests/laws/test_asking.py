"""Asking the laws of a part that no plugin has brought: what an author does before publishing."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

from kit import Kit, KitError, MultiHeadAttention, MultiHeadOptions, Norm, Options, laws
from kit.laws.law import laws_of
from kit.laws.subject import subjects_of

KIT = Kit()
SAMPLE = Path(__file__).parents[1] / "third_party" / "kit-sample-distance" / "kit_sample_distance.py"


class MyOptions(MultiHeadOptions):
    use: Literal["mine"] = "mine"
    sharpness: Literal["low", "middle", "high"] = "low"
    span: int = 100


class MyAttention(MultiHeadAttention):
    options_type = MyOptions
    examples: Sequence[Mapping[str, Any]] = ({"heads": 2, "sharpness": "high"},)  # type: ignore[misc]


class Unbuildable(Norm):
    class options_type(Options):  # type: ignore[misc]
        use: Literal["unbuildable"] = "unbuildable"

    def __init__(self, *given: Any) -> None:
        raise ValueError("no")


def test_every_choice_of_every_option_is_tried_and_sizes_are_made_small() -> None:
    tried = [subject.options for subject in subjects_of(MyAttention, KIT.registry)]
    assert all(isinstance(options, MyOptions) for options in tried)
    assert {options.sharpness for options in tried} == {"low", "middle", "high"}  # type: ignore[attr-defined]
    assert {options.bias for options in tried} == {True, False}  # type: ignore[attr-defined]
    assert {options.kv_heads for options in tried} == {None, 2}  # type: ignore[attr-defined]
    assert all(options.span < 10 for options in tried[:-1])  # type: ignore[attr-defined]


def test_examples_are_tried_as_a_recipe_writes_them() -> None:
    last = subjects_of(MyAttention, KIT.registry)[-1].options
    assert (last.heads, last.sharpness, last.span) == (2, "high", 100)  # type: ignore[attr-defined]


def test_some_laws_of_a_part_that_is_not_installed() -> None:
    chosen = [law for law in laws_of("attention") if law.name in ("shape", "incremental_decoding")]
    report = laws.check(MyAttention, KIT, chosen)
    assert report.passed
    assert [verdict.law.name for verdict in report] == ["shape", "incremental_decoding"]


def test_the_parts_of_a_stranger_keep_their_laws() -> None:
    spec = importlib.util.spec_from_file_location("kit_sample_distance", SAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
        for component in module.kit_components():
            report = laws.check(component, KIT)
            assert report.passed, str(report)
    finally:
        del sys.modules[spec.name]


def test_a_part_that_cannot_be_built_fails_with_its_own_reason() -> None:
    report = laws.check(Unbuildable, KIT)
    assert not report.passed
    assert all("ValueError: no" in verdict.message for verdict in report.failures)


def test_a_part_from_a_registry_can_be_asked() -> None:
    part = KIT.registry.components("norm")[0]
    report = laws.check(part, KIT)
    assert report.part == f"norm {part.name}"
    assert report.passed, str(report)


def test_a_kind_without_laws_says_so() -> None:
    part = KIT.registry.components("scaling")[0]
    with pytest.raises(KitError, match="no laws for the kind scaling"):
        laws.check(part, KIT)
