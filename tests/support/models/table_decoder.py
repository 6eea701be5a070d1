"""A decoder that is a table of probabilities, so that what a search must find can be worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from kit import Request, SpecialTokenIds, TokenBatch
from kit.sequence.batch_layout import last_token

A, B, END = 0, 1, 2

LETTERS: dict[tuple[int, ...], list[float]] = {
    (): [0.6, 0.4, 0.0],
    (A,): [0.3, 0.2, 0.5],
    (B,): [0.1, 0.0, 0.9],
    (A, A): [0.0, 0.4, 0.6],
    (A, B): [0.5, 0.0, 0.5],
}
"""All texts: B .36, A .30, AA .108, AAB .072, AB .06, ABA .06, BA .04."""


class TableDecoder:
    """Each text has its own table from what was written to the probabilities of A, B, ... and the end; else it ends."""

    device = torch.device("cpu")
    end = END

    def __init__(self, *tables: Mapping[tuple[int, ...], Sequence[float]]) -> None:
        self.tables = list(tables)
        self.read: list[tuple[int, ...]] = [() for _ in tables]
        self.steps = 0
        self.widest = 0

    @property
    def rows(self) -> int:
        return len(self.tables)

    def step(self, tokens: TokenBatch | Tensor, last: bool = False) -> Tensor:
        tokens = TokenBatch.of(tokens)
        assert tokens.ids.shape[0] == self.rows
        self.steps += 1
        self.widest = max(self.widest, self.rows)
        size = len(next(iter(self.tables[0].values())))
        scores = torch.zeros(*tokens.ids.shape, size, dtype=torch.float64)
        for row, ids in enumerate(tokens.ids.tolist()):
            for place, token in enumerate(ids):
                if tokens.padding_mask is None or tokens.padding_mask[row, place]:
                    self.read[row] = (*self.read[row], token)
                wanted = self.tables[row].get(self.read[row][1:], [float(token == self.end) for token in range(size)])
                # Scores need not be normalised: shifted by something of their own.
                scores[row, place] = torch.tensor(wanted, dtype=torch.float64).log() + 3.0 * len(self.read[row]) - row
        return last_token(scores, tokens.padding_mask)[:, None] if last else scores

    def reorder(self, rows: Tensor) -> None:
        self.tables = [self.tables[row] for row in rows.tolist()]
        self.read = [self.read[row] for row in rows.tolist()]


def ask(**changes: object) -> Request:
    """A request whose only special token is the end."""
    return Request(**{"length": 10, "special_tokens": SpecialTokenIds(start=99, end=END, suppressed=()), **changes})  # type: ignore[arg-type]
