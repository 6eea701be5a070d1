"""Embeddings initialised from pretrained vectors: word2vec (Mikolov et al. 2013), GloVe (Pennington et al. 2014).

Shapes: V token ids, F dimension of the file's vectors, D model width; the table is [V, F], the projection [D, F].
"""

from __future__ import annotations

import logging
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from kit import BuildContext, DataError, Dims, Embedding, KitError, Options, Special, find_file
from kit_embedding.vector_files import Vector, VectorFile

log = logging.getLogger(__name__)

SAMPLE = 10_000
"""Words of a file from which the mean and variance of its vectors are estimated."""


class PretrainedOptions(Options):
    """Pretrained embeddings, read from a file when training starts; saved models do not need the file."""

    use: Literal["pretrained"] = "pretrained"
    file: str = Field(min_length=1)
    """The file of vectors; `.gz` files are decompressed on the fly."""
    format: Literal["text", "binary"] | None = None
    """File format; left out, binary for .bin and .bin.gz, else text."""
    width: PositiveInt | None = None
    """Dimension of the file's vectors; left out, the model's width. Others get a learned projection to it."""
    frozen: bool = False
    """Whether the table is frozen in training."""
    lowercase: bool = False
    """Whether words that are not in the file are looked up in lower case."""
    markers: str = "▁Ġ"
    """Word-boundary markers of tokenizers, which are stripped before the look-up."""

    @property
    def binary(self) -> bool:
        """Whether the file is read as binary."""
        return self.format == "binary" or (self.format is None and self.file.removesuffix(".gz").endswith(".bin"))


class PretrainedEmbedding(Embedding):
    """Vectors of the file for its words; the others are drawn with the file's mean and standard deviation."""

    options_type = PretrainedOptions
    options: PretrainedOptions
    table: Tensor

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        assert dims.vocabulary is not None
        self.found: int | None = None
        self.width = options.width or dims.width
        table = nn.init.normal_(torch.empty(dims.vocabulary, self.width), std=self.width**-0.5)
        if options.frozen:
            self.register_buffer("table", table)
        else:
            self.table = nn.Parameter(table)
        if self.width != dims.width:
            self.up = nn.Parameter(torch.empty(dims.width, self.width))
            nn.init.xavier_uniform_(self.up)

    def forward(self, ids: Tensor) -> Tensor:
        """ids: [...]; returns [..., width]."""
        x = F.embedding(ids, self.table)
        return x if self.width == self.dims.width else F.linear(x, self.up)

    def project(self, x: Tensor) -> Tensor:
        """x: [..., width]; logits [..., vocabulary]."""
        return F.linear(x if self.width == self.dims.width else x @ self.up, self.table)

    @torch.no_grad()
    def init_pretrained(self) -> None:
        """Reads the file; the number of tokens found is kept in `found` and logged."""
        symbols = self.dims.symbols
        if symbols is None:
            raise KitError(f"vectors of {self.options.file} belong to words, and the words of this model are not known")
        wanted = self._wanted(symbols)
        tokens = len({number for places in wanted.values() for number, _ in places})
        found, sample = self._read(wanted)
        if not found:
            raise DataError(
                f"holds none of the {tokens} tokens of the vocabulary",
                path=self.options.file,
                hint="choose a tokenizer of words, or a file for this language",
            )
        mean, spread = (torch.from_numpy(part).to(self.table) for part in (sample.mean(0), sample.std(0)))
        self.table.normal_().mul_(spread).add_(mean)
        for number, vector in found.items():
            self.table[number] = torch.from_numpy(vector).to(self.table)
        self.found = len(found)
        percentage = 100 * len(found) / tokens
        log.info("%s: vectors for %d of %d tokens (%.1f %%)", self.options.file, len(found), tokens, percentage)

    def _wanted(self, symbols: tuple[str, ...]) -> dict[str, list[tuple[int, int]]]:
        """For each spelling, its token ids with a rank: 0 exact, 1 without markers, 2 in lower case."""
        wanted: dict[str, list[tuple[int, int]]] = {}
        for number, symbol in enumerate(symbols):
            if number < len(Special):
                continue
            bare = symbol.lstrip(self.options.markers) or symbol
            spellings = [symbol, bare, *([bare.lower()] if self.options.lowercase else [])]
            for quality, spelling in enumerate(dict.fromkeys(spellings)):
                wanted.setdefault(spelling, []).append((number, quality))
        return wanted

    def _read(self, wanted: dict[str, list[tuple[int, int]]]) -> tuple[dict[int, Vector], Vector]:
        file = VectorFile(find_file(self.options.file), self.options.binary)
        found: dict[int, Vector] = {}
        best: dict[int, int] = {}
        sample: list[Vector] = []
        for entry in file.entries():
            if file.width != self.width:
                raise DataError(
                    f"its vectors have {file.width} numbers, and this embedding is made for {self.width}",
                    path=file.path,
                    line=entry.line,
                    hint=f"write width: {file.width} under embedding",
                )
            places = wanted.get(entry.word, [])
            if places or len(sample) < SAMPLE:
                vector = file.vector(entry)
                sample.append(vector)
                for number, quality in places:
                    # Of equal ranks the first entry wins: files are sorted by frequency.
                    if number not in best or quality < best[number]:
                        found[number], best[number] = vector, quality
        return found, np.stack(sample)
