"""A batch of token ids as a model is given it: ids, which of them are real, and facts about each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(frozen=True)
class Tokens:
    """Token ids in rows of one length, padded where a text is shorter."""

    ids: Tensor
    """[rows, length], whole numbers."""
    valid: Tensor | None = None
    """[rows, length], true where a token is real; None where all are."""
    facts: Mapping[str, Tensor] = field(default_factory=dict)
    """[rows, length] each: `document` numbers of packed texts, `prefix` flags, `segment` numbers, `position` where that
    is not the plain count."""
    right_padded: bool | None = None
    """Whether padding stands only after the real tokens; None where that is not known."""

    @classmethod
    def from_lists(cls, rows: Sequence[Sequence[int]], padding: int = 0, device: torch.device | None = None) -> Tokens:
        """Rows of ids of any length, padded on the right."""
        length = max([1, *map(len, rows)])
        ids = torch.full((len(rows), length), padding, dtype=torch.long)
        valid = torch.zeros(len(rows), length, dtype=torch.bool)
        for row, values in enumerate(rows):
            ids[row, : len(values)] = torch.tensor(values, dtype=torch.long)
            valid[row, : len(values)] = True
        return cls(ids.to(device), None if bool(valid.all()) else valid.to(device), {}, right_padded=True)

    @classmethod
    def of(cls, value: Tokens | Tensor) -> Tokens:
        """Tokens as they are; a tensor of ids as tokens that are all real."""
        return value if isinstance(value, Tokens) else cls(value, right_padded=True)


def last_of(x_BLD: Tensor, valid_BL: Tensor | None) -> Tensor:
    """What stands at the last real token of each row, [B, ...]; at the first place, where a row has none."""
    if valid_BL is None:
        return x_BLD[:, -1]
    places_L = torch.arange(valid_BL.shape[1], device=valid_BL.device)
    last_B = torch.where(valid_BL, places_L, 0).amax(1)
    return x_BLD[torch.arange(x_BLD.shape[0], device=x_BLD.device), last_B]
