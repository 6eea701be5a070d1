"""Next-token inputs and labels, and values of real tokens in the order of packed logits."""

from __future__ import annotations

import torch
from torch import Tensor

from kit import TokenBatch


def shift_right(tokens: TokenBatch) -> tuple[TokenBatch, Tensor, Tensor | None]:
    """The inputs (all but the last token), the labels [B, L] (all but the first), and the labels' padding mask.

    Rows are padded on the right: where the next token is real, so is the one that it follows.
    """
    padding_mask = None if tokens.padding_mask is None else tokens.padding_mask[:, 1:]
    features = {name: feature[:, :-1] for name, feature in tokens.features.items()}
    return TokenBatch(tokens.ids[:, :-1], padding_mask, features, tokens.right_padded), tokens.ids[:, 1:], padding_mask


def pack(values: Tensor, padding_mask: Tensor | None) -> Tensor:
    """Values of real tokens, row by row, in the order of packed logits: [N]."""
    return values.reshape(-1) if padding_mask is None else values[padding_mask]


def pack_rows(ids: Tensor, padding_mask: Tensor | None) -> Tensor:
    """The row of each real token: [N]."""
    rows = torch.arange(ids.shape[0], device=ids.device)[:, None].expand_as(ids)
    return pack(rows, padding_mask)


def flatten_logits(logits: Tensor) -> Tensor:
    """Logits of all tokens as [N, V], packed or without padding."""
    return logits.reshape(-1, logits.shape[-1])
