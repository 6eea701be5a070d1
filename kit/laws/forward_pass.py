"""Forward passes of parts of every kind, with inputs that have gradients, for laws of all kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from kit.contracts.attention import Attention
from kit.contracts.stack import EncoderOutput
from kit.laws.batches import group_feature, layout_of, padding_mask_of, vectors
from kit.laws.setting import MEMORY, VOCABULARY, WIDTH, Setting
from kit.laws.subject import Subject
from kit.sequence.attention_context import AttentionContext
from kit.sequence.batch_layout import BatchLayout

Call = Callable[..., Tensor]
Run = tuple[tuple[Tensor, ...], Call]
"""The inputs of a part, and a function that calls it: call(part, *inputs)."""
LENGTHS = (4, 6)
"""The lengths of the two rows of a padded batch."""


def _layout(x: Tensor, lengths: tuple[int, ...]) -> BatchLayout:
    """Returns a padded layout with token features; on the meta device one without padding."""
    shape = (x.shape[0], x.shape[1])
    if x.is_meta:
        return BatchLayout(shape, x.device, features={"group": torch.zeros(shape, dtype=torch.long, device=x.device)})
    padding_mask = padding_mask_of(lengths)
    return layout_of(*shape, padding_mask, features=group_feature(padding_mask, *shape))


def _attention(subject: Subject, setting: Setting) -> Run:
    def call(part: Any, x: Tensor, memory: Tensor | None = None) -> Tensor:
        assert issubclass(subject.component, Attention)
        queries = _layout(x, LENGTHS)
        keys = queries if memory is None else _layout(memory, (5, 3))
        position = setting.position(part.dims, subject.component)
        out: Tensor = part(x, memory, AttentionContext(queries, keys, setting.mask, position))
        return queries.packed().unpad(out) if queries.padding_mask is not None else out

    x = vectors(2, 6, WIDTH)
    return ((x, vectors(2, 5, MEMORY, seed=1)) if setting.memory else (x,)), call


def _position(subject: Subject, setting: Setting) -> Run:
    """Returns inputs and a call that applies a position at all of its locations."""

    def call(part: Any, x: Tensor, q: Tensor, k: Tensor) -> Tensor:
        layout = _layout(x, (6, 6))
        context = AttentionContext(layout, layout, setting.mask, part)
        q_rotated, k_rotated = context.rotate_queries(q), context.rotate_keys(k)
        scores = context.scores(q_rotated, k_rotated, 0.5)
        return torch.cat([part.embed(x, layout.positions).flatten(), scores.flatten()])

    heads = setting.dims().heads
    width = setting.dims().head_dim
    return (vectors(2, 6, WIDTH), vectors(2, heads, 6, width, seed=1), vectors(2, heads, 6, width, seed=2)), call


def _norm(subject: Subject, setting: Setting) -> Run:
    return (vectors(2, 6, WIDTH),), lambda part, x: part(x)


def _residual(subject: Subject, setting: Setting) -> Run:
    def call(part: Any, x: Tensor, weights: Tensor) -> Tensor:
        sublayers = [lambda y, w=weight: torch.tanh(y @ w) for weight in weights.unbind(0)]
        out: Tensor = part.end_stream(part(part.begin_stream(x), sublayers))
        return out

    return (vectors(2, 6, WIDTH), vectors(2, WIDTH, WIDTH, seed=1) / WIDTH**0.5), call


def _feedforward(subject: Subject, setting: Setting) -> Run:
    def call(part: Any, x: Tensor) -> Tensor:
        layout = _layout(x, LENGTHS)
        out: Tensor = part(x, AttentionContext(layout, layout, setting.mask))
        return layout.packed().unpad(out) if layout.padding_mask is not None else out

    return (vectors(2, 6, WIDTH),), call


def _embedding(subject: Subject, setting: Setting) -> Run:
    """Returns inputs and a call that embeds ids and projects vectors to the vocabulary."""

    def call(part: Any, x: Tensor) -> Tensor:
        ids = torch.arange(VOCABULARY, device=x.device).repeat(2)
        features = {name: (ids % 2).long() for name in part.reads}
        return torch.cat([part.mark(part(ids), features).flatten(), part.project(x).flatten()])

    return (vectors(2, 6, WIDTH),), call


def _stack(subject: Subject, setting: Setting) -> Run:
    def call(part: Any, x: Tensor, memory: Tensor | None = None) -> Tensor:
        layout = _layout(x, LENGTHS)
        kept = None if memory is None else EncoderOutput(memory, _layout(memory, (5, 3)))
        out: Tensor = part(part.embed(x, layout.positions), layout, kept)
        return layout.packed().unpad(out) if layout.padding_mask is not None else out

    x = vectors(2, 6, WIDTH)
    return ((x, vectors(2, 5, MEMORY, seed=1)) if setting.memory else (x,)), call


def _head(subject: Subject, setting: Setting) -> Run:
    def call(part: Any, x: Tensor) -> Tensor:
        layout = _layout(x, LENGTHS)
        out: Tensor = part(x, layout, None)
        return layout.packed().unpad(out) if part.per_token and layout.padding_mask is not None else out

    return (vectors(2, 6, WIDTH),), call


def attention_mask_of(mask: Any) -> Tensor | None:
    """Returns the attention mask [B, 1, Q, K] of a mask for two sequences; None if it masks nothing."""
    features = {name: torch.zeros(2, 6, dtype=torch.long) for name in mask.needs}
    layout = BatchLayout((2, 6), torch.get_default_device(), features=features)
    return AttentionContext(layout, layout, mask).attention_mask


RUNS: dict[str, Callable[[Subject, Setting], Run]] = {
    "attention": _attention,
    "position": _position,
    "norm": _norm,
    "residual": _residual,
    "feedforward": _feedforward,
    "embedding": _embedding,
    "stack": _stack,
    "head": _head,
}
"""The inputs and the call of a part of each kind; masks are not modules."""


@dataclass(frozen=True)
class ForwardPass:
    """A part in a setting, with inputs for its forward pass."""

    subject: Subject
    setting: Setting
    inputs: tuple[Tensor, ...]
    """Input tensors, which get gradients."""
    call: Call
    """Calls the part: call(part, *inputs)."""

    @property
    def name(self) -> str:
        """The name of the setting."""
        return self.setting.name

    def build(self, **options: Any) -> nn.Module:
        """Builds the part."""
        part: nn.Module = self.subject.build(self.setting, **options)
        return part

    def run(self, part: nn.Module, dtype: torch.dtype = torch.float64) -> Tensor:
        """Returns the output of the part."""
        return self.call(part, *(each.to(dtype).requires_grad_(torch.is_grad_enabled()) for each in self.inputs))


def forward_passes(subject: Subject) -> Iterator[ForwardPass]:
    """Yields a forward pass for each setting."""
    for setting in subject.settings:
        inputs, call = RUNS[subject.component.kind](subject, setting)
        yield ForwardPass(subject, setting, inputs, call)
