"""Character-CNN word embeddings with highway layers: Character-Aware Neural Language Models (Kim et al. 2016).

Characters are UTF-8 bytes, as in ELMo (Peters et al. 2018), so that parameters do not depend on the data.
Shapes: W words, V token ids, C characters per word, E character dimension, F filters, D model width.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import Field, NonNegativeInt, PositiveInt
from torch import Tensor, nn

from kit import BuildContext, Dims, Embedding, KitError, Options, Problem

PADDING, START, END = 0, 1, 2
ALPHABET = 3 + 256
"""Padding, start and end of a word, and every byte."""


class CharactersOptions(Options):
    """Character-CNN embeddings: word vectors computed from bytes, without a table of words.

    With `tie: output` logits are dot products with the vectors of all words, computed anew for every batch; with
    `tie: none` the head has a projection of its own, as in the paper.
    """

    use: Literal["characters"] = "characters"
    letter_width: PositiveInt = 16
    """Dimension of a character embedding."""
    spans: list[PositiveInt] = Field(default=[1, 2, 3, 4, 5, 6], min_length=1)
    """Kernel sizes of the convolutions, in characters."""
    filters: PositiveInt = 25
    """Filters per character of a kernel: a kernel of size 3 has 3 times as many as one of size 1."""
    highway: NonNegativeInt = 1
    """Number of highway layers (Srivastava et al. 2015)."""
    longest: PositiveInt = Field(default=32, le=1000)
    """Bytes of a word that are read."""


class Highway(nn.Module):
    """Highway layer with a carry bias: [W, F]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.change = nn.Linear(width, width)
        self.gate = nn.Linear(width, width)
        nn.init.constant_(self.gate.bias, -2.0)

    def forward(self, x_WF: Tensor) -> Tensor:
        """x: [W, F]; the same shape."""
        return torch.lerp(x_WF, F.relu(self.change(x_WF)), torch.sigmoid(self.gate(x_WF)))


class CharactersEmbedding(Embedding):
    """Byte embeddings, convolutions, max pooling over the word, highway layers, projection."""

    options_type = CharactersOptions
    options: CharactersOptions
    letters_VC: Tensor

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        assert dims.vocabulary is not None
        if dims.symbols is not None and len(dims.symbols) != dims.vocabulary:
            raise KitError(f"{len(dims.symbols)} words are known, and the vocabulary has {dims.vocabulary}")
        # Saved with the weights, so that a model can be loaded without its tokenizer.
        self.register_buffer("letters_VC", spell(dims.symbols, dims.vocabulary, options.longest))
        self.letter = nn.Parameter(torch.empty(ALPHABET, options.letter_width))
        nn.init.uniform_(self.letter, -0.05, 0.05)
        nn.init.zeros_(self.letter[PADDING])
        counts = [span * options.filters for span in options.spans]
        self.filters = nn.ModuleList(
            nn.Conv1d(options.letter_width, count, span) for span, count in zip(options.spans, counts, strict=True)
        )
        self.highway = nn.Sequential(*(Highway(sum(counts)) for _ in range(options.highway)))
        self.up = nn.Linear(sum(counts), dims.width)
        self._kept: tuple[object, Tensor] | None = None

    @classmethod
    def check(cls, options: Any, dims: Dims, build_context: BuildContext) -> Iterator[Problem]:
        """A kernel must fit into the longest word."""
        for number, span in enumerate(options.spans):
            if span > options.longest + 2:
                yield build_context.problem(
                    f"a filter looks at {span} letters, and the longest word has {options.longest} and two marks",
                    "spans",
                    number,
                    hint=f"write longest: {span - 2}, or a shorter span",
                )

    def forward(self, ids: Tensor) -> Tensor:
        """ids: [...]; returns [..., width]. Each distinct word is computed once."""
        if ids.is_meta or torch.compiler.is_compiling():
            return self.words(self.letters_VC[ids.flatten()]).view(*ids.shape, -1)
        distinct, index = torch.unique(ids, return_inverse=True)
        return F.embedding(index, self.words(self.letters_VC[distinct]))

    def project(self, x: Tensor) -> Tensor:
        """x: [..., width]; dot products with the vectors of all words: [..., vocabulary]."""
        return F.linear(x, self._every_word())

    def words(self, letters_WC: Tensor) -> Tensor:
        """The vectors of some words: [W, D]."""
        # The padding vector is zero and has no gradient.
        x_WEC = F.embedding(letters_WC.int(), self.letter, padding_idx=PADDING).transpose(1, 2)
        peaks = [torch.tanh(filters(x_WEC).amax(2)) for filters in self.filters]
        vectors: Tensor = self.up(self.highway(torch.cat(peaks, 1)))
        return vectors

    def _every_word(self) -> Tensor:
        """The vectors of all words [V, D], cached while weights do not change: decoding needs them at every step."""
        weights = [*self.parameters(), self.letters_VC]
        unkept = torch.is_grad_enabled() or torch.compiler.is_compiling() or self.letter.is_meta
        if unkept or any(weight.is_inference() for weight in weights):
            return self.words(self.letters_VC)
        device = self.letter.device.type
        precision = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
        mark = (precision, [(weight.data_ptr(), weight._version, weight.dtype) for weight in weights])
        if self._kept is None or self._kept[0] != mark:
            self._kept = (mark, self.words(self.letters_VC))
        return self._kept[1]


def spell(symbols: tuple[str, ...] | None, count: int, longest: int) -> Tensor:
    """Bytes of each word between start and end markers: [count, longest + 2].

    Before the words are known, each id is spelt as its number, so that distinct ids stay distinct.
    """
    words = symbols if symbols is not None else tuple(str(number) for number in range(count))
    rows = torch.full((count, longest + 2), PADDING, dtype=torch.int16)
    for row, word in enumerate(words):
        letters = [byte + 3 for byte in word.encode("utf-8", errors="replace")[:longest]]
        rows[row, : len(letters) + 2] = torch.tensor([START, *letters, END], dtype=torch.int16)
    return rows
