"""A batch: what a model is given in one step, which examples it is, and how its loss counts among all processes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from kit.sequence.batch_layout import TokenBatch


@dataclass(frozen=True)
class Batch:
    """A micro-batch: the part of a global batch that one rank computes in one accumulation step.

    A loss summed over its predicted tokens, times `token_scale`, averages over all micro-batches (DDP averages over
    ranks, Lightning over accumulation steps) to the mean over the global batch, however that was divided.
    """

    source: TokenBatch | None
    """The source tokens of the encoder; for a model of one stack, the whole sequence."""
    target: TokenBatch | None
    """The target tokens of an encoder-decoder, from the start to the end token; an objective shifts them."""
    labels: Tensor | None
    """[rows]: the class of each row."""
    step: int
    """The optimizer step of the global batch."""
    indices: tuple[int, ...]
    """The example of each row: its index in the split, or the offset of its window."""
    parts: int = 1
    """The number of micro-batches of the global batch: data-parallel ranks times accumulation steps."""
    global_rows: int = 0
    """The number of rows of the global batch."""
    global_tokens: int = 0
    """The number of predicted tokens of the global batch."""
    counted: bool = True
    """False if there were fewer rows than micro-batches: the row keeps this rank in step, and its loss has weight 0."""

    @property
    def token_scale(self) -> float:
        """The factor of a loss summed over predicted tokens."""
        return self.parts / self.global_tokens if self.counted and self.global_tokens else 0.0

    @property
    def row_scale(self) -> float:
        """The factor of a loss summed over rows."""
        return self.parts / self.global_rows if self.counted and self.global_rows else 0.0

    @property
    def positions(self) -> int:
        """The number of positions, padding included."""
        return sum(side.ids.numel() for side in (self.source, self.target) if side is not None)

    @property
    def padding(self) -> int:
        """The number of padding positions."""
        sides = [
            side.padding_mask
            for side in (self.source, self.target)
            if side is not None and side.padding_mask is not None
        ]
        return sum(int(padding_mask.numel() - padding_mask.sum()) for padding_mask in sides)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Batch:
        """The same batch on another device."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Batch:
        """The same batch in page-locked memory, from which a copy to a GPU need not wait."""
        return self._each(Tensor.pin_memory)

    def _each(self, change: Callable[[Tensor], Tensor]) -> Batch:
        return replace(
            self,
            source=None if self.source is None else _each(self.source, change),
            target=None if self.target is None else _each(self.target, change),
            labels=None if self.labels is None else change(self.labels),
        )


def _each(tokens: TokenBatch, change: Callable[[Tensor], Tensor]) -> TokenBatch:
    return replace(
        tokens,
        ids=change(tokens.ids),
        padding_mask=None if tokens.padding_mask is None else change(tokens.padding_mask),
        features={name: change(feature) for name, feature in tokens.features.items()},
    )
