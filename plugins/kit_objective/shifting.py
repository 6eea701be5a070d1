"""Reading a text up to each token and predicting the next: inputs and what they are to predict."""

from __future__ import annotations

import torch
from torch import Tensor

from kit import Tokens


def shifted(tokens: Tokens) -> tuple[Tokens, Tensor, Tensor | None]:
    """All but the last token of each row to read, [B, L] of what follows each, and which of those are real.

    Rows are padded on the right: where the next token is real, so is the one that it follows.
    """
    valid = None if tokens.valid is None else tokens.valid[:, 1:]
    facts = {name: fact[:, :-1] for name, fact in tokens.facts.items()}
    return Tokens(tokens.ids[:, :-1], valid, facts, tokens.right_padded), tokens.ids[:, 1:], valid


def real(values: Tensor, valid: Tensor | None) -> Tensor:
    """Values of real tokens, row by row, in the order of packed scores: [N]."""
    return values.reshape(-1) if valid is None else values[valid]


def places(ids: Tensor, valid: Tensor | None, kept: Tensor | None = None) -> tuple[int, Tensor]:
    """How many rows there are, and the row of each real token, or of those that are kept of them."""
    rows = torch.arange(ids.shape[0], device=ids.device)[:, None].expand_as(ids)
    found = real(rows, valid)
    return ids.shape[0], found if kept is None else found[kept]


def rows_of(scores: Tensor) -> Tensor:
    """Scores of all tokens as [N, V], whether padding was left out of them or there was none."""
    return scores.reshape(-1, scores.shape[-1])
