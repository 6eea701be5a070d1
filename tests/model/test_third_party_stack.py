"""A third party's stack refuses what its parts cannot do, by the checks that it inherits from the contract."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

import pytest
from models.tiny_models import section
from pydantic import Field, PositiveInt

from kit import (
    AttentionSlot,
    Cache,
    Kit,
    MaskSlot,
    NoCache,
    NormSlot,
    Options,
    PositionSlot,
    Problem,
    ResidualSlot,
    Stack,
    hookimpl,
)
from kit.model.builder import ModelBuilder
from kit_attention.additive import AdditiveOptions
from kit_attention.fourier import FourierOptions
from kit_attention.nystrom import NystromOptions
from kit_attention.softmax import SoftmaxAttention, SoftmaxOptions
from kit_mask.causal import CausalOptions
from kit_mask.window import WindowOptions
from kit_norm.layer import LayerOptions
from kit_position.rotary import RotaryOptions
from kit_residual.pre import PreOptions


class TinyOptions(Options):
    """A stack of a third party: it declares slots, and no checks."""

    use: Literal["tiny"] = "tiny"
    depth: PositiveInt = 1
    """Layers."""
    attention: AttentionSlot
    """Self-attention."""
    cross_attention: AttentionSlot | None = None
    """Cross-attention."""
    residual: ResidualSlot
    """Residual connection."""
    norm: NormSlot | None = None
    """Norm."""
    position: PositionSlot | None = None
    """Positional encoding."""
    masks: list[MaskSlot] = Field(default_factory=list)
    """Masks."""


class TinyStack(Stack):
    options_type = TinyOptions

    def forward(self, x: Any, layout: Any, memory: Any = None, state: Any = None, observer: Any = None) -> Any:
        return x

    def start(self) -> Cache:
        return NoCache()


class UncheckedOptions(TinyOptions):
    """The negative control: the same stack without the inherited checks."""

    use: Literal["unchecked"] = "unchecked"  # type: ignore[assignment]


class UncheckedStack(TinyStack):
    options_type = UncheckedOptions

    @classmethod
    def check(cls, options: Any, dims: Any, build_context: Any) -> Iterator[Problem]:
        yield from ()


class EncoderOnlyOptions(TinyOptions):
    """A stack without cross-attention."""

    use: Literal["encoder_only"] = "encoder_only"  # type: ignore[assignment]


class EncoderOnlyStack(TinyStack):
    options_type = EncoderOnlyOptions
    reads_memory = False


class ThirdParty:
    kit_api = 1

    @hookimpl
    def kit_components(self) -> list[type]:
        return [TinyStack, UncheckedStack, EncoderOnlyStack]


KIT = Kit(plugins=[ThirdParty()])
SOUND: dict[str, Any] = {
    "attention": SoftmaxOptions(heads=4),
    "residual": PreOptions(),
    "norm": LayerOptions(),
    "masks": [CausalOptions()],
}
CROSS = {"cross_attention": SoftmaxOptions(heads=4)}
REFUSED: list[tuple[str, str, dict[str, Any], str]] = [
    ("heads", "decoder", {"attention": SoftmaxOptions(heads=5)}, "5 heads do not divide the width 32"),
    ("norm", "decoder", {"norm": None}, "no norm is named here or for the model"),
    ("future", "decoder", {"masks": []}, "its masks (none) do not hide the future"),
    ("mask", "encoder", {"attention": FourierOptions(), "masks": [WindowOptions(size=4)]}, "no mask but padding"),
    ("incremental", "decoder", {"attention": FourierOptions()}, "cannot go on token by token"),
    (
        "position",
        "decoder",
        {"attention": AdditiveOptions(heads=4), "position": RotaryOptions()},
        "makes no use of a pos",
    ),
    ("memory", "encoder-decoder", {"cross_attention": NystromOptions(heads=4)}, "cannot attend to a memory"),
    ("no cross", "encoder-decoder", {"cross_attention": None}, "needs a cross_attention"),
    ("no memory", "decoder", CROSS, "has no memory to attend to"),
]


def found(family: str, options: Options) -> list[str]:
    tower = "encoder" if family == "encoder" else "decoder"
    towers = {"encoder": TinyOptions(**SOUND), tower: options} if family == "encoder-decoder" else {tower: options}
    model = section(family, norm=None, position=None, **towers)
    return [str(problem) for problem in ModelBuilder(KIT.registry).check(model)]


@pytest.mark.parametrize(("family", "changes", "words"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_it_refuses_without_code_of_its_own(family: str, changes: dict[str, Any], words: str) -> None:
    crossing = CROSS if family == "encoder-decoder" else {}
    problems = found(family, TinyOptions(**{**SOUND, **crossing, **changes}))
    assert any(words in problem for problem in problems), problems
    # Negative control: without what it inherits, nothing is refused.
    assert not any(words in problem for problem in found(family, UncheckedOptions(**{**SOUND, **crossing, **changes})))


@pytest.mark.parametrize("family", ["encoder", "decoder", "encoder-decoder"])
def test_it_takes_what_is_sound(family: str) -> None:
    crossing = CROSS if family == "encoder-decoder" else {}
    assert found(family, TinyOptions(**SOUND, **crossing)) == []


def test_attention_to_a_memory_only(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = SoftmaxAttention.capabilities
    monkeypatch.setattr(SoftmaxAttention, "capabilities", replace(plain, reads_self=False))
    (problem,) = found("decoder", TinyOptions(**SOUND))
    assert "softmax attention can only attend to a memory" in problem


def test_a_stack_that_reads_no_memory() -> None:
    problems = found("encoder-decoder", EncoderOnlyOptions(**SOUND, **CROSS))
    assert any("has a memory to attend to, and the stack encoder_only reads none" in problem for problem in problems)
