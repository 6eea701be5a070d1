"""Rows of one text that share its state: reordering a beam changes what each row may see, and copies no cache.

The rows of a text lie side by side as tokens of one row of the state. What every row read stays where it is, and a row
sees the tokens that it descends from; now and then those that no row descends from any more are forgotten.
Shapes: A texts, W rows a text, R = A · W rows, L tokens read at once, S tokens in one row of the state, K kept of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby

import torch
from torch import Tensor

from kit.layout import Layout
from kit.tokens import Tokens

FEW = 256
"""So many tokens in a row of the state are not worth clearing up."""


class Branches:
    """Which tokens each row descends from, and how many real ones those are."""

    def __init__(self, reach_RS: Tensor, count_R: Tensor, width: int) -> None:
        self.reach_RS = reach_RS
        self.count_R = count_R
        self.width = width
        """How many rows a text has."""
        self._enough = FEW
        """From how many tokens on it is worth a look which are still of use."""

    @classmethod
    def start(cls, rows: int, read: Layout | None, device: torch.device) -> Branches:
        """One row a text, which has read everything so far."""
        length, count = (0, 0) if read is None else (read.length, read.count)
        count_1 = count if isinstance(count, Tensor) else torch.tensor(count, device=device)
        reach_RS = torch.ones(rows, length, dtype=torch.bool, device=device)
        return cls(reach_RS, count_1.reshape(-1).expand(rows), 1)

    def select(self, rows: Tensor) -> Tensor | None:
        """Go on with these rows; returns the rows of the state that are wanted, or None where they stay."""
        texts, width = grouped([row // self.width for row in rows.tolist()])
        same = texts == list(range(self.count_R.shape[0] // self.width))
        self.reach_RS, self.count_R = self.reach_RS.index_select(0, rows), self.count_R.index_select(0, rows)
        self.width = width
        return None if same else torch.tensor(texts, dtype=torch.long, device=rows.device)

    def forget(self) -> Tensor | None:
        """Which tokens of each text to keep, [A, K], where at most half of them are of use to any row; else None."""
        read = self.reach_RS.shape[1]
        if read <= self._enough or not self.reach_RS.shape[0]:
            return None
        reach_AWS = self.reach_RS.view(-1, self.width, read)
        useful_AS = reach_AWS.any(1)
        most = int(useful_AS.sum(1).max())
        self._enough = max(FEW, 2 * most)
        if 2 * most > read:
            return None
        # Texts with fewer keep some that no row sees.
        kept_AK = useful_AS.to(torch.uint8).argsort(stable=True, dim=1, descending=True)[:, :most]
        self.reach_RS = reach_AWS.gather(2, kept_AK[:, None].expand(-1, self.width, -1)).flatten(0, 1)
        return kept_AK

    def fold(self, tokens: Tokens) -> tuple[Tokens, Layout]:
        """Tokens [R, L] as those of A rows of the state, and where they stand."""
        rows, length = tokens.ids.shape
        texts, new = rows // self.width, self.width * length
        ids = tokens.ids.reshape(texts, new)
        valid = None if tokens.valid is None else tokens.valid.reshape(texts, new)
        facts = {name: fact.reshape(texts, new) for name, fact in tokens.facts.items()}
        count_AW = self.count_R.view(texts, self.width)
        layout = Layout((texts, new), ids.device, valid, False, count_AW[:, :1], facts)
        before_ANS = self.reach_RS.view(texts, self.width, -1)
        layout.order = count_AW
        if length > 1 or tokens.valid is not None:
            before_ANS = before_ANS.repeat_interleave(length, 1)
            layout.order = (self.count_R[:, None] + _places(tokens)).reshape(texts, new)
        own_ANN = own_tokens(self.width, length, ids.device).expand(texts, new, new)
        layout.reach = torch.cat([before_ANS, own_ANN], 2)
        last_AWS = layout.reach if length == 1 else layout.reach[:, length - 1 :: length]
        self.reach_RS = last_AWS.reshape(rows, -1)
        self.count_R = self.count_R + (length if tokens.valid is None else tokens.valid.sum(1))
        return Tokens(ids, valid, facts, right_padded=False), layout


def _places(tokens: Tokens) -> Tensor:
    """[R or 1, L]: how many tokens that are read at once stand before each."""
    if tokens.valid is None:
        return torch.arange(tokens.ids.shape[1], device=tokens.ids.device)[None]
    return (tokens.valid.cumsum(1) - 1).clamp(min=0)


def grouped(texts: Sequence[int]) -> tuple[list[int], int]:
    """The texts of these rows and how many rows each has, where that is the same; else each row for itself, and 1."""
    runs = [(text, len(list(run))) for text, run in groupby(texts)]
    widths = {count for _, count in runs}
    return ([text for text, _ in runs], widths.pop()) if len(widths) == 1 else (list(texts), 1)


@lru_cache(maxsize=64)
def own_tokens(width: int, length: int, device: torch.device) -> Tensor:
    """[W · L, W · L]: true where a new token is of the same row and not later."""
    row_N = torch.arange(width, device=device).repeat_interleave(length)
    place_N = torch.arange(length, device=device).repeat(width)
    return (row_N[:, None] == row_N) & (place_N[:, None] >= place_N)
