"""Words as rows of byte numbers, for embeddings that look inside words (bytes as in ELMo, Peters et al. 2018)."""

from __future__ import annotations

import torch
from torch import Tensor

PADDING, START, END = 0, 1, 2
ALPHABET = 3 + 256
"""Padding, the beginning and the end of a word, and every byte."""


def spell(symbols: tuple[str, ...] | None, count: int, longest: int) -> Tensor:
    """Byte numbers of each word between marks of its beginning and end: [count, longest + 2].

    Where words are not known yet, each id is spelt as its number: different ids stay different words.
    """
    words = symbols if symbols is not None else tuple(str(number) for number in range(count))
    rows = torch.full((count, longest + 2), PADDING, dtype=torch.int16)
    for row, word in enumerate(words):
        letters = [byte + 3 for byte in word.encode("utf-8", errors="replace")[:longest]]
        rows[row, : len(letters) + 2] = torch.tensor([START, *letters, END], dtype=torch.int16)
    return rows
