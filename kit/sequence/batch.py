"""A batch: what a model is given in one step, which examples it is, and how its loss counts among all processes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from kit.sequence.batch_layout import TokenBatch


@dataclass(frozen=True)
class Batch:
    """A share of a global batch.

    A loss summed over this share's predicted tokens, times `token_scale`, averages over all shares (DDP averages over
    processes, Lightning over accumulated pieces) to the mean over the global batch, however that was shared out.
    """

    source: TokenBatch | None
    """What the encoder reads; for a model of one stack, all there is."""
    target: TokenBatch | None
    """What the decoder of an encoder-decoder writes, from the start to the end token; an objective shifts it."""
    labels: Tensor | None
    """[rows]: the class of each row."""
    step: int
    """The global step that this is a share of."""
    indices: tuple[int, ...]
    """Which examples the rows are: their numbers in the split, or the offsets of windows."""
    parts: int = 1
    """How many shares the global batch is cut into: processes times accumulated pieces."""
    global_rows: int = 0
    """How many rows the global batch has."""
    global_tokens: int = 0
    """How many tokens are predicted in the global batch."""
    counted: bool = True
    """False where there were fewer rows than shares: the row only keeps this process in step; its loss is worth 0."""

    @property
    def token_scale(self) -> float:
        """What a loss summed over predicted tokens is multiplied by."""
        return self.parts / self.global_tokens if self.counted and self.global_tokens else 0.0

    @property
    def row_scale(self) -> float:
        """What a loss summed over rows is multiplied by."""
        return self.parts / self.global_rows if self.counted and self.global_rows else 0.0

    @property
    def positions(self) -> int:
        """How many places for tokens there are, padding counted."""
        return sum(side.ids.numel() for side in (self.source, self.target) if side is not None)

    @property
    def padding(self) -> int:
        """How many of the places are padding."""
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
