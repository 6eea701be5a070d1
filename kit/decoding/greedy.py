"""Greedy decoding: the likeliest token at every step, for a whole batch; rows that have ended leave it.

Shapes: B rows still being written, L tokens read at once, V choices.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kit.contracts.tokenizer import Special
from kit.model.session import Session
from kit.tokens import Tokens

NEVER_WRITTEN = (Special.PADDING, Special.START, Special.MASK, Special.SEPARATOR)
"""Tokens that stand in no text."""


@torch.inference_mode()
def greedy(session: Session, first: Tokens, limits: int | Sequence[int]) -> list[list[int]]:
    """What the model writes after the first tokens, row by row, without the end token.

    limits: the most tokens to write, for all rows or for each.
    """
    rows, device = first.ids.shape[0], first.ids.device
    most = [limits] * rows if isinstance(limits, int) else list(limits)
    written: list[list[int]] = [[] for _ in range(rows)]
    owner = list(range(rows))  # which row of the result each row of the session is
    forbidden = torch.tensor([int(special) for special in NEVER_WRITTEN], device=device)
    scores_BV = _last(session.step(first), first.valid)
    while owner:
        scores_BV[:, forbidden] = float("-inf")
        chosen_B = scores_BV.argmax(1)
        kept: list[int] = []
        for place, token in enumerate(chosen_B.tolist()):
            row = owner[place]
            if token != Special.END and len(written[row]) < most[row]:
                written[row].append(token)
                if len(written[row]) < most[row]:
                    kept.append(place)
        if not kept:
            break
        if len(kept) < len(owner):
            index = torch.tensor(kept, device=device)
            session.select(index)
            chosen_B = chosen_B[index]
            owner = [owner[place] for place in kept]
        facts = {name: torch.zeros_like(chosen_B[:, None], dtype=fact.dtype) for name, fact in first.facts.items()}
        scores_BV = session.step(Tokens(chosen_B[:, None], None, facts, right_padded=True))[:, -1]
    return written


def _last(scores_BLV: Tensor, valid_BL: Tensor | None) -> Tensor:
    """The scores after the last real token of each row."""
    if valid_BL is None:
        return scores_BLV[:, -1]
    steps_L = torch.arange(valid_BL.shape[1], device=valid_BL.device)
    last_B = torch.where(valid_BL, steps_L, 0).max(1).values
    return scores_BLV[torch.arange(len(last_B), device=last_B.device), last_B]
