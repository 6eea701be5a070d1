"""Softmax attention within packed texts in training, by C++ of our own (texts.cpp): nothing is padded or turned.

Shapes: N tokens of queries, M tokens of keys, T texts, D numbers of all heads side by side.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from kit.native.loading import Library
from kit.native.plain import is_plain

LANES = 16
"""Heads are as wide as a multiple of this."""

LIBRARY = Library("texts", {"attend_texts": None, "attend_texts_back": None}, needs="AVX512")


class Heads(NamedTuple):
    """How many of them lie side by side, and how they attend."""

    heads: int
    groups: int
    scale: float
    causal: bool


def attends(x: Tensor) -> bool:
    """Whether `attend_within` can be asked for what is made of x: gradients are wanted, in float32."""
    if not LIBRARY.loaded or not torch.is_grad_enabled() or torch.compiler.is_compiling():
        return False
    return is_plain(x) and not torch.is_autocast_enabled("cpu")


def attend_within(query: Tensor, key_value: Tensor | None, starts: tuple[Tensor, Tensor], heads: Heads) -> Tensor:
    """What heads give [..., D], each query looking at keys of its own text.

    query: [..., D] queries, which keys and values follow side by side where there is no other tensor for them.
    starts: which token each text begins with, and how many there are, for queries and for keys: [T + 1].
    """
    key_value_MD = None if key_value is None else key_value.reshape(-1, key_value.shape[-1])
    out_ND: Tensor = _Within.apply(query.reshape(-1, query.shape[-1]), key_value_MD, *starts, heads)  # type: ignore[no-untyped-call]
    return out_ND.view(*query.shape[:-1], out_ND.shape[1])


class _Within(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key_value: Tensor | None, q_starts: Tensor, k_starts: Tensor, heads: Heads
    ) -> Tensor:
        query, key_value = _in_rows(query), None if key_value is None else _in_rows(key_value)
        out, weights = torch.ops.kit.attend_texts(*_divided(query, key_value, heads), q_starts, k_starts, *heads)
        ctx.save_for_backward(weights, query, key_value, q_starts, k_starts)
        ctx.heads = heads
        return out  # type: ignore[no-any-return]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        weights, query, key_value, q_starts, k_starts = ctx.saved_tensors
        d_query, d_key_value = torch.empty_like(query), None if key_value is None else torch.empty_like(key_value)
        torch.ops.kit.attend_texts_back(
            _in_rows(gradients[0]), weights, *_divided(query, key_value, ctx.heads), q_starts, k_starts, *ctx.heads,
            *_divided(d_query, d_key_value, ctx.heads),
        )  # fmt: skip
        return d_query, d_key_value, None, None, None


def _divided(query: Tensor, key_value: Tensor | None, heads: Heads) -> tuple[Tensor, Tensor]:
    """Queries, and keys with values."""
    if key_value is not None:
        return query, key_value
    size = query.shape[1] * heads.heads // (heads.heads + 2 * heads.groups)
    return query[:, :size], query[:, size:]


def _in_rows(x: Tensor) -> Tensor:
    return x if x.stride(1) == 1 else x.contiguous()
