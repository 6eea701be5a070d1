"""Keys and values mixed down to a fixed number: Linformer (Wang et al. 2020). Reads a text, does not write one.

Shapes: B rows, H heads, G groups, Q queries, K keys, T the longest text, R rank, E width of a key, F width of a value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from kit import (
    Abilities,
    Dims,
    KitError,
    MultiHeadAttention,
    MultiHeadOptions,
    NoState,
    Problem,
    Scope,
    Site,
    State,
    repeat_groups,
)
from kit_attention.only import refuse_masks


class LinformerOptions(MultiHeadOptions):
    """Every query sees a fixed number of learned mixtures of the text."""

    use: Literal["linformer"] = "linformer"
    rank: PositiveInt = 64
    """How many mixtures of keys, and of values, there are."""
    shared: bool = False
    """Whether keys and values are mixed alike (the paper's key-value sharing); heads of a layer always are."""


class LinformerAttention(MultiHeadAttention):
    """Softmax over mixtures of keys, of mixtures of values; what is hidden enters no mixture."""

    options_type = LinformerOptions
    options: LinformerOptions
    abilities = Abilities(
        shares=False, masks=frozenset(), positions=frozenset(), reads_memory=False, steps=False, cost="linear"
    )

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        self.mix_keys = nn.Parameter(torch.empty(options.rank, dims.length))
        nn.init.normal_(self.mix_keys, std=options.rank**-0.5)
        if not options.shared:
            self.mix_values = nn.Parameter(torch.empty(options.rank, dims.length))
            nn.init.normal_(self.mix_values, std=options.rank**-0.5)

    @classmethod
    def check(cls, options: Any, dims: Dims, site: Site) -> Iterator[Problem]:
        """There must be something to save."""
        yield from super().check(options, dims, site)
        if options.rank > dims.length:
            yield site.problem(
                f"a rank of {options.rank} is more than the longest text, {dims.length} tokens",
                "rank",
                hint=f"take at most {dims.length}, or choose softmax attention",
            )

    def start(self) -> State:
        """Nothing: it does not go step by step."""
        return NoState()

    def value_path(self) -> list[Tensor]:
        """With what mixes values."""
        return super().value_path() if self.options.shared else [*super().value_path(), self.mix_values]

    def weigh(self, q_BHQE: Tensor, k_BGKE: Tensor, scope: Scope) -> Tensor:
        """What each value ends up with: weights of mixtures times its share in them. They may be negative."""
        refuse_masks(scope, self.part_name())
        return self._weigh_mixtures(q_BHQE, k_BGKE, scope) @ self._shares(self._value_shares, scope)

    def attend(self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, scope: Scope) -> Tensor:
        """Through the mixtures."""
        refuse_masks(scope, self.part_name())
        mixed_BGRF = self._shares(self._value_shares, scope) @ v_BGKF
        return self.mix(self._weigh_mixtures(q_BHQE, k_BGKE, scope), mixed_BGRF)

    @property
    def _value_shares(self) -> Tensor:
        return self.mix_keys if self.options.shared else self.mix_values

    def _weigh_mixtures(self, q_BHQE: Tensor, k_BGKE: Tensor, scope: Scope) -> Tensor:
        mixed_BGRE = self._shares(self.mix_keys, scope) @ k_BGKE
        scores_BHQR = (q_BHQE * self.scale) @ repeat_groups(mixed_BGRE, q_BHQE).transpose(-1, -2)
        return scores_BHQR.softmax(-1)

    def _shares(self, mixing_RT: Tensor, scope: Scope) -> Tensor:
        """The share of each key in each mixture, by its place in its own text: [B or 1, 1, R, K]; none for padding."""
        keys = scope.keys
        if keys.length > mixing_RT.shape[1]:
            raise KitError(
                f"{self.site.name} mixes texts of up to {mixing_RT.shape[1]} tokens, and was given {keys.length}; "
                f"build the model with length: {keys.length} or more"
            )
        if keys.right_padded:
            shares_BRK = mixing_RT[None, :, : keys.length]
        else:
            shares_RBK = mixing_RT.index_select(1, keys.order.flatten()).unflatten(1, keys.order.shape)
            shares_BRK = shares_RBK.transpose(0, 1)
        if keys.valid is not None:
            shares_BRK = shares_BRK * keys.valid[:, None]
        return shares_BRK[:, None]
