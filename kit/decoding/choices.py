"""How likely each next token is, and the quick way to the likeliest few.

Shapes: R rows, V choices, K best of them; A texts of W rows each, N blocks of B choices, C candidates.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kit.lazy import lazy
from kit.native.likeliest import likeliest

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

    def top_of_texts(self, live_AW: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
        """The best continuations of all rows of each text, best first: totals, which rows of the text, tokens; [A, K].

        live_AW: the log-probability of each row so far.
        """
        return top_of_texts(self.log_RV, live_AW, count)

    def of(self, token_R: Tensor) -> Tensor:
        """The log-probability of one token in each row, [R]."""
        return self.log_RV.gather(1, token_R[:, None])[:, 0]

    def select(self, rows: Tensor) -> Choices:
        """Those of some rows, in a new order."""
        return Choices(self.log_RV[rows])


class ScoredChoices(Choices):
    """The same straight from scores of any scale; log-probabilities of all are made only if they are asked for."""

    def __init__(self, scores_RV: Tensor, never_N: Tensor) -> None:
        self.__dict__.update(scores_RV=scores_RV, never_N=never_N)

    scores_RV: Tensor
    never_N: Tensor
    """Tokens that are hidden."""

    @lazy
    def log_RV(self) -> Tensor:
        """As `Choices` has them."""
        return self.scores_RV.log_softmax(1).index_fill_(1, self.never_N, float("-inf"))

    def best(self) -> tuple[Tensor, Tensor]:
        """The best token of each row."""
        none_R1 = torch.zeros(self.scores_RV.shape[0], 1, dtype=torch.float64)
        log_R1, _, token_R1 = likeliest(self.scores_RV, self.never_N, none_R1, 1)
        return log_R1[:, 0], token_R1[:, 0]

    def top_of_texts(self, live_AW: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
        """The best continuations of all rows of each text."""
        return likeliest(self.scores_RV, self.never_N, live_AW, count)


def top(x_RV: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The greatest numbers of each row and their places, greatest first."""
    if not _in_blocks(x_RV, count):
        values_RK, places_RK = x_RV.topk(count, 1)
        return values_RK, places_RK
    values_RK, _, places_RK = _top_in_blocks(x_RV, x_RV.new_zeros(x_RV.shape[0], 1), count)
    return values_RK, places_RK


def top_of_texts(x_RV: Tensor, live_AW: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The greatest sums of a text's rows and their numbers, greatest first, which rows, and their places; [A, K]."""
    if _in_blocks(x_RV, count):
        return _top_in_blocks(x_RV, live_AW, count)
    gain_RK, place_RK = x_RV.topk(min(count, x_RV.shape[1]), 1)
    total_AC = (live_AW.reshape(-1, 1) + gain_RK).view(live_AW.shape[0], -1)
    total_AK, among_AK = total_AC.topk(min(count, total_AC.shape[1]), 1)
    return total_AK, among_AK // gain_RK.shape[1], place_RK.view_as(total_AC).gather(1, among_AK)


def _in_blocks(x_RV: Tensor, count: int) -> bool:
    """Whether to look in blocks: a CPU sorts its way through a whole row, which takes longer than that."""
    size = x_RV.shape[1]
    return x_RV.device.type == "cpu" and size >= WIDE and count <= size // BLOCK // 4


def _top_in_blocks(x_RV: Tensor, live_AW: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The same, looked for among the blocks that can hold them."""
    (texts, rows), size = live_AW.shape, x_RV.shape[1]
    even = size // BLOCK * BLOCK
    x_RNB, live_AW1 = x_RV[:, :even].unflatten(1, (-1, BLOCK)), live_AW[:, :, None]
    blocks = x_RNB.shape[1]
    most_AC = (x_RNB.amax(2).view(texts, rows, blocks) + live_AW1).flatten(1)
    chosen_AK = most_AC.topk(count, 1, sorted=False).indices
    row_AK, block_AK = chosen_AK // blocks, chosen_AK % blocks
    first_A1 = torch.arange(0, texts * rows, rows, device=x_RV.device)[:, None]
    total_AC = (x_RNB[first_A1 + row_AK, block_AK] + live_AW.gather(1, row_AK)[:, :, None]).flatten(1)
    start_AK1 = (row_AK * size + block_AK * BLOCK)[:, :, None]
    place_AC = (start_AK1 + torch.arange(BLOCK, device=x_RV.device)).flatten(1)
    if even < size:
        rest_AC = (x_RV[:, even:].view(texts, rows, size - even) + live_AW1).flatten(1)
        place_W1 = torch.arange(0, rows * size, size, device=x_RV.device)[:, None]
        place_C = (place_W1 + torch.arange(even, size, device=x_RV.device)).flatten()
        total_AC, place_AC = torch.cat([total_AC, rest_AC], 1), torch.cat([place_AC, place_C.expand(texts, -1)], 1)
    total_AK, among_AK = total_AC.topk(count, 1)
    place_AK = place_AC.gather(1, among_AK)
    return total_AK, place_AK // size, place_AK % size
