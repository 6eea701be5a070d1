"""Tokens drawn at random by their probability, from all or from a part of them.

Shapes: R rows, V choices, T tokens that may be written.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal

import torch
from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor

from kit import Choices, Decoder, Hypothesis, KitError, Request, Search, SearchOptions, Writing
from kit_search.filters import keep_min_p, keep_top_k, keep_top_p, keep_typical
from kit_search.row_by_row import write_rows

Share = Annotated[float, Field(gt=0.0, le=1.0)]


class SampleOptions(SearchOptions):
    """Random texts; filters apply in the order in which they stand here, after the temperature."""

    use: Literal["sample"] = "sample"
    temperature: PositiveFloat = 1.0
    """Below 1 likely tokens become likelier, above 1 less so."""
    top_k: PositiveInt | None = None
    """Draw from this many most probable tokens only."""
    top_p: Share | None = None
    """Draw from the fewest most probable tokens that together have this share of the probability."""
    min_p: Share | None = None
    """Draw from tokens at least this share as probable as the most probable one."""
    typical: Share | None = None
    """Draw from the fewest tokens whose surprise is nearest to the expected one that together have this share."""
    samples: PositiveInt = 1
    """How many hypotheses to draw for each text."""
    seed: int = 0
    """The same seed, text and stream give the same draw, whatever else is in the batch."""


class SampleSearch(Search):
    """A score is the model's own log-probability, before temperature and filters; the best sample comes first."""

    options_type = SampleOptions
    options: SampleOptions
    several = "samples"

    def run(self, decoder: Decoder, request: Request) -> list[list[Hypothesis]]:
        """`samples` hypotheses for each text."""
        writing, count = Writing(decoder, request), self.options.samples
        texts = writing.rows
        numbers_RT = self._numbers(request, writing).to(writing.device)
        choices = writing.begin()
        if count > 1:
            rows = torch.arange(texts, device=writing.device).repeat_interleave(count)
            writing.keep(rows)
            choices = choices.select(rows)

        def choose(choices: Choices, number_R: Tensor) -> tuple[Tensor, Tensor]:
            token_R = draw(self._filtered(choices.log_RV), numbers_RT[number_R, writing.length])
            return choices.of(token_R), token_R

        first = choose(choices, torch.arange(writing.rows, device=writing.device))
        found = write_rows(writing, first, lambda token_R, number_R: choose(writing.write(token_R), number_R))
        return [sorted(found[text * count : (text + 1) * count], key=lambda each: -each.score) for text in range(texts)]

    def _filtered(self, log_p_RV: Tensor) -> Tensor:
        options = self.options
        logits_RV = log_p_RV / options.temperature
        if options.top_k is not None:
            logits_RV = keep_top_k(logits_RV, options.top_k)
        if options.top_p is not None:
            logits_RV = keep_top_p(logits_RV, options.top_p)
        if options.min_p is not None:
            logits_RV = keep_min_p(logits_RV, options.min_p)
        return logits_RV if options.typical is None else keep_typical(logits_RV, options.typical)

    def _numbers(self, request: Request, writing: Writing) -> Tensor:
        """[R, T]: a random number for each token of each sample, from a generator of its own."""
        streams = range(writing.rows) if request.streams is None else request.streams
        if len(streams) != writing.rows:
            raise KitError(f"the request has {len(streams)} streams for {writing.rows} texts; give one for each text")
        length = int(writing.limits_R.max())
        drawn = []
        for stream in streams:
            for sample in range(self.options.samples):
                name = hashlib.sha256(f"{self.options.seed} {stream} {sample}".encode()).digest()
                generator = torch.Generator().manual_seed(int.from_bytes(name[:8]) >> 1)
                drawn.append(torch.rand(length, dtype=torch.float64, generator=generator))
        return torch.stack(drawn)


def draw(logits_RV: Tensor, number_R: Tensor) -> Tensor:
    """The token of each row at which the summed probability passes the number; never a hidden one, if any is not."""
    stuck_R1 = logits_RV.amax(1, keepdim=True) == float("-inf")
    sum_RV = logits_RV.masked_fill(stuck_R1, 0.0).softmax(1, dtype=torch.float64).cumsum(1)
    wanted_R1 = number_R[:, None] * sum_RV[:, -1:]
    last_R1 = torch.searchsorted(sum_RV, sum_RV[:, -1:].contiguous())  # the last token that has any probability
    return torch.minimum(torch.searchsorted(sum_RV, wanted_R1, right=True), last_R1)[:, 0]
