"""How likely each next token is, and the quick way to the likeliest few.

Shapes: R rows, V choices, K best of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

WIDE = 4096
BLOCK = 64
"""From WIDE choices on, the best are looked for among the blocks of this many with the highest maxima."""


@dataclass(frozen=True)
class Choices:
    """How likely each token is, as log-probabilities of all there are; those of hidden ones are -inf."""

    log_RV: Tensor

    def best(self) -> tuple[Tensor, Tensor]:
        """The best token of each row: log-probability [R], token [R]."""
        log_R, token_R = self.log_RV.max(1)
        return log_R, token_R

    def top(self, count: int) -> tuple[Tensor, Tensor]:
        """The best tokens of each row, best first: log-probabilities [R, K], tokens [R, K]."""
        return top(self.log_RV, min(count, self.log_RV.shape[1]))

    def of(self, token_R: Tensor) -> Tensor:
        """The log-probability of one token in each row, [R]."""
        return self.log_RV.gather(1, token_R[:, None])[:, 0]

    def select(self, rows: Tensor) -> Choices:
        """Those of some rows, in a new order."""
        return Choices(self.log_RV[rows])


def top(x_RV: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The greatest numbers of each row and their places, greatest first.

    A CPU sorts its way through a whole row, which takes longer than finding the blocks that can hold the greatest.
    """
    rows, size = x_RV.shape
    blocks = size // BLOCK
    if x_RV.device.type != "cpu" or size < WIDE or count > blocks // 4 or not x_RV.is_contiguous():
        values_RK, places_RK = x_RV.topk(count, 1)
        return values_RK, places_RK
    even = blocks * BLOCK
    x_RNW = x_RV[:, :even].unflatten(1, (blocks, BLOCK))
    block_RK = x_RNW.amax(2).topk(count, 1, sorted=False).indices
    inside_RKW = x_RNW.gather(1, block_RK[:, :, None].expand(-1, -1, BLOCK))
    places_RKW = block_RK[:, :, None] * BLOCK + torch.arange(BLOCK, device=x_RV.device)
    found_RC, places_RC = inside_RKW.flatten(1), places_RKW.flatten(1)
    if even < size:
        rest_C = torch.arange(even, size, device=x_RV.device).expand(rows, -1)
        found_RC, places_RC = torch.cat([found_RC, x_RV[:, even:]], 1), torch.cat([places_RC, rest_C], 1)
    values_RK, among_RK = found_RC.topk(count, 1)
    return values_RK, places_RC.gather(1, among_RK)
