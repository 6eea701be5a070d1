"""Rows of one text that share its state: nothing is copied when a beam is reordered, only what each row may see changes.

The rows of a text lie side by side as tokens of one row of the state. What every row read stays where it is, and a row
sees the tokens that it descends from.
Shapes: A texts, W rows a text, R = A · W rows, L tokens read at once, S tokens read so far in one row of the state.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kit.layout import Layout
from kit.tokens import Tokens


class Branches:
    """Which tokens each row descends from, and how many real ones those are."""

    def __init__(self, reach_RS: Tensor, count_R: Tensor, width: int) -> None:
        self.reach_RS = reach_RS
        self.count_R = count_R
        self.width = width
        """How many rows a text has."""

    @classmethod
    def start(cls, rows: int, read: Layout | None) -> Branches:
        """One row a text, which has read everything so far."""
        if read is None:
            return cls(torch.ones(rows, 0, dtype=torch.bool), torch.zeros(rows, dtype=torch.long), 1)
        count = read.count if isinstance(read.count, Tensor) else torch.tensor(read.count, device=read.device)
        reach_RS = torch.ones(rows, read.length, dtype=torch.bool, device=read.device)
        return cls(reach_RS, count.reshape(-1).expand(rows), 1)

    def select(self, rows: Tensor) -> Tensor | None:
        """Go on with these rows; returns the rows of the state that are wanted now, or None where they are as before."""
        texts, width = grouped(rows // self.width)
        same = texts.shape[0] * self.width == self.count_R.shape[0] and bool((texts == torch.arange(len(texts))).all())
        self.reach_RS, self.count_R = self.reach_RS.index_select(0, rows), self.count_R.index_select(0, rows)
        self.width = width
        return None if same else texts

    def fold(self, tokens: Tokens) -> tuple[Tokens, Layout]:
        """Tokens [R, L] as those of A rows of the state, and where they stand."""
        rows, length = tokens.ids.shape
        texts, new = rows // self.width, self.width * length
        ids, valid = tokens.ids.view(texts, new), None if tokens.valid is None else tokens.valid.view(texts, new)
        facts = {name: fact.view(texts, new) for name, fact in tokens.facts.items()}
        layout = Layout((texts, new), ids.device, valid, False, self.count_R.view(texts, self.width)[:, :1], facts)
        if tokens.valid is None:
            inside_RL = torch.arange(length, device=ids.device).expand(rows, length)
            added = length
        else:
            inside_RL, added = (tokens.valid.cumsum(1) - 1).clamp(min=0), tokens.valid.sum(1)
        layout.order = (self.count_R[:, None] + inside_RL).reshape(texts, new)
        own_NN = own_tokens(self.width, length, ids.device)
        before_ANS = self.reach_RS.view(texts, self.width, 1, -1).expand(-1, -1, length, -1).reshape(texts, new, -1)
        layout.reach = torch.cat([before_ANS, own_NN.expand(texts, -1, -1)], 2)
        newest_RN = own_NN.view(self.width, length, new)[:, -1].repeat(texts, 1)
        self.reach_RS, self.count_R = torch.cat([self.reach_RS, newest_RN], 1), self.count_R + added
        return Tokens(ids, valid, facts, right_padded=False), layout


def grouped(texts_R: Tensor) -> tuple[Tensor, int]:
    """The texts of these rows and how many rows each has, where that is the same; else each row for itself, and 1."""
    texts, counts = texts_R.unique_consecutive(return_counts=True)
    width = int(counts[0]) if len(counts) else 1
    return (texts, width) if bool((counts == width).all()) else (texts_R, 1)


def own_tokens(width: int, length: int, device: torch.device) -> Tensor:
    """[W · L, W · L]: true where a new token is of the same row and not later."""
    row_N = torch.arange(width, device=device).repeat_interleave(length)
    place_N = torch.arange(length, device=device).repeat(width)
    return (row_N[:, None] == row_N) & (place_N[:, None] >= place_N)
