"""Beams of a search as a decoder holds them: each in a cache row of its own, or all beams of an input in one row.

Shapes: A inputs, R beams, W beams per input, L new tokens, S cached tokens, K kept tokens, D width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from kit.laws.assertions import close
from kit.laws.batches import vectors
from kit.laws.setting import WIDTH
from kit.model.decoding_session import BeamTree
from kit.sequence.batch_layout import BatchLayout, TokenBatch
from kit.sequence.cache import Cache

Forward = Callable[[Tensor, BatchLayout, BatchLayout, Tensor, Cache], Tensor]
"""forward(x, queries, keys, inputs, cache): the output of new tokens x; inputs: the index of each cache row's input."""

PROMPTS = (2, 4, 3)
"""The lengths of the prompts, one for each input."""
REORDERS: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((0, 0, 0, 1, 1, 1, 2, 2, 2), (1,)),
    ((2, 0, 0, 3, 5, 4, 8, 8, 8), (2, 1)),
    ((0, 1, 2, 6, 7, 7), (3,)),
    ((0, 0, 3, 5), (1,)),
    ((3, 1, 1, 0, 2), (1, 3, 2)),
    ((0, 0, 1, 1, 4, 4), (2,)),
)
"""The beams that a search continues with, and the numbers of their new tokens, taken in turn: it widens, changes the
order, drops an input, and gives inputs unequal numbers of beams."""


class Beams:
    """Incremental decoding of the beams of several inputs."""

    def __init__(self, forward: Forward, cache: Cache, shared: bool) -> None:
        """shared: whether all beams of an input share one cache row."""
        self.forward = forward
        self.cache = cache
        self.shared = shared
        self.tree: BeamTree | None = None
        self.read: BatchLayout | None = None
        self.inputs = torch.arange(len(PROMPTS))
        """The input of each cache row."""

    def step(self, x_RLD: Tensor, padding_mask: Tensor | None, features: Mapping[str, Tensor]) -> Tensor:
        """Decodes the next tokens of each beam: [R, L, D]."""
        ids = torch.zeros(x_RLD.shape[:2], dtype=torch.long)
        tokens = TokenBatch(ids, padding_mask, features)
        if self.tree is None:
            layout = BatchLayout.of(tokens, self.read)
        else:
            tokens, layout = self.tree.fold_beams(tokens)
        self.read = layout if self.read is None else self.read.join(layout)
        x = x_RLD.reshape(layout.rows, layout.length, -1)
        return self.forward(x, layout, self.read, self.inputs, self.cache).reshape(x_RLD.shape)

    def reorder(self, rows: Tensor) -> None:
        """Continues with these beams, and evicts the tokens that none of them descends from."""
        if self.shared and self.tree is None:
            self.tree = BeamTree.start(self.inputs.shape[0], self.read, rows.device)
            self.cache.share_across_beams()
        chosen = rows if self.tree is None else self.tree.reorder(rows)
        if chosen is not None:
            self.cache.reorder(chosen)
            self.read = None if self.read is None else self.read.reorder(chosen)
            self.inputs = self.inputs[chosen]
        if self.tree is not None:
            self._evict_dead(self.tree)

    def _evict_dead(self, tree: BeamTree) -> None:
        """Evicts at every reorder; a decoder waits until that is worth its cost."""
        ancestor_AWS = tree.ancestor_RS.view(-1, tree.width, tree.ancestor_RS.shape[1])
        useful_AS = ancestor_AWS.any(1)
        most = int(useful_AS.sum(1).max())
        kept_AK = useful_AS.to(torch.uint8).argsort(stable=True, dim=1, descending=True)[:, :most]
        if self.read is None or kept_AK.shape[1] == self.read.length:
            return
        tree.ancestor_RS = ancestor_AWS.gather(2, kept_AK[:, None].expand(-1, tree.width, -1)).flatten(0, 1)
        self.cache.evict_except(kept_AK)
        self.read = self.read.evict_except(kept_AK)


def compare_shared_beams(forward: Forward, start: Callable[[], Cache], name: str) -> None:
    """Compares beams that share the cache row of their input with beams in rows of their own."""
    shared, apart = Beams(forward, start(), True), Beams(forward, start(), False)
    read_R = torch.zeros(len(PROMPTS), dtype=torch.long)
    for number, (rows, lengths) in enumerate(((tuple(range(len(PROMPTS))), PROMPTS), *REORDERS)):
        if number:
            for each in (shared, apart):
                each.reorder(torch.tensor(rows))
            read_R = read_R[torch.tensor(rows)]
        length_R = torch.tensor([lengths[row % len(lengths)] for row in range(len(rows))])
        real_RL = torch.arange(max(lengths)) < length_R[:, None]
        index_RL = (read_R[:, None] + real_RL.cumsum(1) - 1).clamp(min=0)
        read_R = read_R + length_R
        padding_mask = None if bool(real_RL.all()) else real_RL
        given = vectors(len(rows), max(lengths), WIDTH, seed=number), padding_mask, {"group": index_RL // 2 % 3}
        with torch.no_grad():
            found, wanted = shared.step(*given), apart.step(*given)
        what = "before beams" if not number else f"beams {list(rows)} at reorder {number}"
        close(found[real_RL], wanted[real_RL], f"{name}, {what}, in one cache row for each input")
