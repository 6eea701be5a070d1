"""Sampling: tokens drawn by their probability, after temperature and filters.

top-p: The Curious Case of Neural Text Degeneration (Holtzman et al. 2020); min-p: Nguyen et al. 2024;
typical: Locally Typical Sampling (Meister et al. 2023).
Shapes: R rows, T tokens at most, V vocabulary.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal

import torch
from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor

from kit import Decoder, GenerationState, Hypothesis, KitError, NextTokenLogProbs, Request, Search, SearchOptions
from kit_search.row_generation import generate_rows

Fraction = Annotated[float, Field(gt=0.0, le=1.0)]
NEG_INF = float("-inf")


class SampleOptions(SearchOptions):
    """Temperature, and filters that are applied after it in the order of these options."""

    use: Literal["sample"] = "sample"
    temperature: PositiveFloat = 1.0
    """Divides logits: below 1 probable tokens become more probable, above 1 less so."""
    top_k: PositiveInt | None = None
    """Draw from this many most probable tokens only."""
    top_p: Fraction | None = None
    """Draw from the fewest most probable tokens that together have this probability."""
    min_p: Fraction | None = None
    """Draw from tokens at least this many times as probable as the most probable one."""
    typical: Fraction | None = None
    """Draw from the fewest tokens with surprisal nearest to the entropy that together have this probability."""
    samples: PositiveInt = 1
    """How many hypotheses to draw for each text."""
    seed: int = 0
    """The same seed, text and stream give the same draw, whatever else is in the batch."""


class SampleSearch(Search):
    """Draws samples; scores are log-probabilities before temperature and filters, the best sample comes first."""

    options_type = SampleOptions
    options: SampleOptions
    several = "samples"

    def run(self, decoder: Decoder, request: Request) -> list[list[Hypothesis]]:
        """Returns `samples` hypotheses for each sequence."""
        state, count = GenerationState(decoder, request), self.options.samples
        texts = state.rows
        numbers_RT = self._numbers(request, state).to(state.device)
        log_probs = state.prefill()
        if count > 1:
            rows = torch.arange(texts, device=state.device).repeat_interleave(count)
            state.reorder(rows)
            log_probs = log_probs.reorder(rows)

        def choose(log_probs: NextTokenLogProbs, number_R: Tensor) -> tuple[Tensor, Tensor]:
            token_R = draw(self._filtered(log_probs.log_RV), numbers_RT[number_R, state.length])
            return log_probs.of(token_R), token_R

        first = choose(log_probs, torch.arange(state.rows, device=state.device))
        found = generate_rows(state, first, lambda token_R, number_R: choose(state.step(token_R), number_R))
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

    def _numbers(self, request: Request, state: GenerationState) -> Tensor:
        """Draws a uniform random number for each token of each sample, [R, T], with a generator of its own."""
        streams = range(state.rows) if request.streams is None else request.streams
        if len(streams) != state.rows:
            raise KitError(f"the request has {len(streams)} streams for {state.rows} texts; give one for each text")
        length = int(state.limits_R.max())
        drawn = []
        for stream in streams:
            for sample in range(self.options.samples):
                name = hashlib.sha256(f"{self.options.seed} {stream} {sample}".encode()).digest()
                generator = torch.Generator().manual_seed(int.from_bytes(name[:8]) >> 1)
                drawn.append(torch.rand(length, dtype=torch.float64, generator=generator))
        return torch.stack(drawn)


def draw(logits_RV: Tensor, number_R: Tensor) -> Tensor:
    """Draws a token [R] of each row by inverse transform sampling; never a forbidden one if there is another."""
    all_forbidden_R1 = logits_RV.amax(1, keepdim=True) == float("-inf")
    sum_RV = logits_RV.masked_fill(all_forbidden_R1, 0.0).softmax(1, dtype=torch.float64).cumsum(1)
    wanted_R1 = number_R[:, None] * sum_RV[:, -1:]
    last_R1 = torch.searchsorted(sum_RV, sum_RV[:, -1:].contiguous())  # the last token with a probability above 0
    return torch.minimum(torch.searchsorted(sum_RV, wanted_R1, right=True), last_R1)[:, 0]


def keep_top_k(logits_RV: Tensor, count: int) -> Tensor:
    """Keeps the `count` most probable tokens, and those as probable as the last of them."""
    lowest_R1 = logits_RV.topk(min(count, logits_RV.shape[1]), 1).values[:, -1:]
    return logits_RV.masked_fill(logits_RV < lowest_R1, NEG_INF)


def keep_top_p(logits_RV: Tensor, mass: float) -> Tensor:
    """Keeps the fewest most probable tokens that together have at least this probability (nucleus sampling)."""
    order_RV = logits_RV.argsort(dim=1, descending=True, stable=True)
    return _keep_first(logits_RV, order_RV, mass)


def keep_min_p(logits_RV: Tensor, fraction: float) -> Tensor:
    """Keeps tokens at least this many times as probable as the most probable one."""
    floor_R1 = logits_RV.amax(1, keepdim=True) + torch.tensor(fraction, dtype=torch.float64).log().to(logits_RV.dtype)
    return logits_RV.masked_fill(logits_RV < floor_R1, NEG_INF)


def keep_typical(logits_RV: Tensor, mass: float) -> Tensor:
    """Keeps the fewest tokens with a surprisal nearest to the entropy that together have this probability."""
    log_p_RV = logits_RV.log_softmax(1)
    entropy_R1 = -(log_p_RV.exp() * log_p_RV.masked_fill(log_p_RV == NEG_INF, 0.0)).sum(1, keepdim=True)
    order_RV = (-log_p_RV - entropy_R1).abs().argsort(dim=1, stable=True)
    return _keep_first(logits_RV, order_RV, mass)


def _keep_first(logits_RV: Tensor, order_RV: Tensor, mass: float) -> Tensor:
    """Keeps tokens in this order until they have this probability, including the one that reaches it."""
    p_RV = logits_RV.gather(1, order_RV).softmax(1, dtype=torch.float64)
    before_RV = p_RV.cumsum(1) - p_RV
    dropped_RV = torch.zeros_like(before_RV, dtype=torch.bool).scatter(1, order_RV, before_RV >= mass)
    return logits_RV.masked_fill(dropped_RV, NEG_INF)
