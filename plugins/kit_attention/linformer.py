"""Linformer attention, with keys and values projected along the length to a fixed rank (Wang et al. 2020).

Encoders only. Shapes: B batch, H query heads, G key-value heads, Q queries, K keys, T maximum length, R rank, E and F
dimensions of keys and values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from kit import (
    AttentionContext,
    BuildContext,
    Cache,
    Capabilities,
    Dims,
    KitError,
    MultiHeadAttention,
    MultiHeadOptions,
    NoCache,
    Problem,
    repeat_kv,
)
from kit_attention.subquadratic import refuse_masks


class LinformerOptions(MultiHeadOptions):
    """Linformer attention: every query sees `rank` learned mixtures of the sequence."""

    use: Literal["linformer"] = "linformer"
    rank: PositiveInt = 64
    """Projected length of keys and values."""
    shared: bool = False
    """Whether keys and values share the projection (the paper's key-value sharing); the heads of a layer always do."""


class LinformerAttention(MultiHeadAttention):
    """Softmax attention to projected keys and values; padding does not enter the projection."""

    options_type = LinformerOptions
    options: LinformerOptions
    capabilities = Capabilities(
        weights_sum_to_one=False,
        masks=frozenset(),
        positions=frozenset(),
        reads_memory=False,
        incremental=False,
        cost="linear",
    )

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.mix_keys = nn.Parameter(torch.empty(options.rank, dims.length))
        nn.init.normal_(self.mix_keys, std=options.rank**-0.5)
        if not options.shared:
            self.mix_values = nn.Parameter(torch.empty(options.rank, dims.length))
            nn.init.normal_(self.mix_values, std=options.rank**-0.5)

    @classmethod
    def check(cls, options: Any, dims: Dims, build_context: BuildContext) -> Iterator[Problem]:
        """The rank must not exceed the maximum length."""
        yield from super().check(options, dims, build_context)
        if options.rank > dims.length:
            yield build_context.problem(
                f"a rank of {options.rank} is more than the longest sequence, {dims.length} tokens",
                "rank",
                hint=f"take at most {dims.length}, or choose softmax attention",
            )

    def start(self) -> Cache:
        """No cache: it does not decode incrementally."""
        return NoCache()

    def value_output_parameters(self) -> list[Tensor]:
        """The length projection of values too."""
        return (
            super().value_output_parameters()
            if self.options.shared
            else [*super().value_output_parameters(), self.mix_values]
        )

    def attention_weights(self, q_BHQE: Tensor, k_BGKE: Tensor, context: AttentionContext) -> Tensor:
        """The equivalent weights of the keys, possibly negative: [B, H, Q, K]."""
        refuse_masks(context, self.name())
        return self._projected_weights(q_BHQE, k_BGKE, context) @ self._length_projection(
            self._value_projection, context
        )

    def attend(self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, context: AttentionContext) -> Tensor:
        """Attention to the projected keys and values: [B, H, Q, F]."""
        refuse_masks(context, self.name())
        mixed_BGRF = self._length_projection(self._value_projection, context) @ v_BGKF
        return self.weighted_sum(self._projected_weights(q_BHQE, k_BGKE, context), mixed_BGRF)

    @property
    def _value_projection(self) -> Tensor:
        return self.mix_keys if self.options.shared else self.mix_values

    def _projected_weights(self, q_BHQE: Tensor, k_BGKE: Tensor, context: AttentionContext) -> Tensor:
        mixed_BGRE = self._length_projection(self.mix_keys, context) @ k_BGKE
        scores_BHQR = (q_BHQE * self.scale) @ repeat_kv(mixed_BGRE, q_BHQE).transpose(-1, -2)
        return scores_BHQR.softmax(-1)

    def _length_projection(self, weight_RT: Tensor, context: AttentionContext) -> Tensor:
        """The projection of each key by its index in its own sequence: [B or 1, 1, R, K]; zero for padding."""
        keys = context.keys
        if keys.length > weight_RT.shape[1]:
            raise KitError(
                f"{self.build_context.name} projects sequences of up to {weight_RT.shape[1]} tokens, and was given "
                f"{keys.length}; "
                f"build the model with length: {keys.length} or more"
            )
        if keys.right_padded:
            projection_BRK = weight_RT[None, :, : keys.length]
        else:
            projection_RBK = weight_RT.index_select(1, keys.token_index.flatten()).unflatten(1, keys.token_index.shape)
            projection_BRK = projection_RBK.transpose(0, 1)
        if keys.padding_mask is not None:
            projection_BRK = projection_BRK * keys.padding_mask[:, None]
        return projection_BRK[:, None]
