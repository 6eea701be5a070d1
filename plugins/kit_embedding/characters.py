"""Word vectors made from letters by a convolution: Character-Aware Neural Language Models (Kim et al. 2016).

Letters are the bytes of UTF-8, so that the number of parameters does not depend on the data.
Shapes: W words, V token ids, C letters of a word, E width of a letter, F filters, D width of the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import Field, NonNegativeInt, PositiveInt
from torch import Tensor, nn

from kit import Dims, Embedding, KitError, Options, Problem, Site
from kit_embedding.spelling import ALPHABET, PADDING, spell


class CharactersOptions(Options):
    """Words that are spelt alike have vectors that are alike; the table of words is gone.

    With `tie: output` the way back compares with the vectors of all words, which are made anew for every batch;
    with `tie: none` the head has a projection of its own, as in the paper.
    """

    use: Literal["characters"] = "characters"
    letter_width: PositiveInt = 16
    """How many numbers describe a letter."""
    spans: list[PositiveInt] = Field(default=[1, 2, 3, 4, 5, 6], min_length=1)
    """How many letters the filters look at."""
    filters: PositiveInt = 25
    """How many filters there are for each letter of a span: a span of 3 has 3 times as many as a span of 1."""
    highway: NonNegativeInt = 1
    """How many highway layers follow (Srivastava et al. 2015)."""
    longest: PositiveInt = Field(default=32, le=1000)
    """How many bytes of a word are looked at."""


class Highway(nn.Module):
    """Changes a vector where a learned gate is open, and begins mostly closed."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.change = nn.Linear(width, width)
        self.gate = nn.Linear(width, width)
        nn.init.constant_(self.gate.bias, -2.0)

    def forward(self, x_WF: Tensor) -> Tensor:
        """x: [W, F]."""
        return torch.lerp(x_WF, F.relu(self.change(x_WF)), torch.sigmoid(self.gate(x_WF)))


class CharactersEmbedding(Embedding):
    """Letters, filters over spans of letters, the largest answer of each over the word, highway, projection."""

    options_type = CharactersOptions
    options: CharactersOptions
    letters_VC: Tensor

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        assert dims.vocabulary is not None
        if dims.symbols is not None and len(dims.symbols) != dims.vocabulary:
            raise KitError(f"{len(dims.symbols)} words are known, and the vocabulary has {dims.vocabulary}")
        # Saved with the weights: a model that is loaded without its tokenizer must still know how words are spelt.
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
    def check(cls, options: Any, dims: Dims, site: Site) -> Iterator[Problem]:
        """A span must fit into the longest word."""
        for number, span in enumerate(options.spans):
            if span > options.longest + 2:
                yield site.problem(
                    f"a filter looks at {span} letters, and the longest word has {options.longest} and two marks",
                    "spans",
                    number,
                    hint=f"write longest: {span - 2}, or a shorter span",
                )

    def forward(self, ids: Tensor) -> Tensor:
        """ids: [...]; returns [..., width]. Each word of a batch is made once."""
        if ids.is_meta or torch.compiler.is_compiling():
            return self.words(self.letters_VC[ids.flatten()]).view(*ids.shape, -1)
        different, places = torch.unique(ids, return_inverse=True)
        return F.embedding(places, self.words(self.letters_VC[different]))

    def project(self, x: Tensor) -> Tensor:
        """x: [..., width]; returns [..., vocabulary]: the dot product with the vector of every word."""
        return F.linear(x, self._every_word())

    def words(self, letters_WC: Tensor) -> Tensor:
        """The vectors of some words: [W, D]."""
        # The padding's vector is zero and stays so: it has no gradient.
        x_WEC = F.embedding(letters_WC.int(), self.letter, padding_idx=PADDING).transpose(1, 2)
        peaks = [torch.tanh(filters(x_WEC).amax(2)) for filters in self.filters]
        vectors: Tensor = self.up(self.highway(torch.cat(peaks, 1)))
        return vectors

    def _every_word(self) -> Tensor:
        """The vectors of all words, kept while nothing is learnt: writing a text asks for them at every step."""
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
