"""Throughput in tokens a second by sequence length: training step, forward pass and decoding."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
from pydantic import Field, PositiveInt

from kit import DecoderModel, Measure, Measured, Options, Series, Subject, TokenBatch
from kit_measure.random_tokens import checked_length, random_tokens


class SpeedOptions(Options):
    """Options of `speed`. Needs an otherwise idle machine."""

    use: Literal["speed"] = "speed"
    lengths: list[PositiveInt] = Field(default=[32, 128, 512], min_length=1)
    """The sequence lengths, in tokens."""
    tokens: PositiveInt = 2048
    """Tokens in a batch, the same for every length; at least one sequence."""
    repeats: PositiveInt = 3
    """Repeats, of which the fastest counts: disturbances only slow a measurement down."""
    decode: PositiveInt = 32
    """Tokens that are decoded after a prompt; only for decoders."""


class SpeedMeasure(Measure):
    """Throughput curves, and the figures of every length."""

    options_type = SpeedOptions
    options: SpeedOptions

    def measure(self, subject: Subject) -> Measured:
        """Every length in turn."""
        lengths = sorted(self.options.lengths)
        checked_length(subject, lengths[-1])
        curves: dict[str, list[float]] = {"train": [], "forward": []}
        for length in lengths:
            tokens = random_tokens(subject, max(1, self.options.tokens // length), length)
            curves["train"].append(self._rate(tokens, partial(_step, subject, tokens)))
            curves["forward"].append(self._rate(tokens, partial(_forward, subject, tokens)))
        if isinstance(subject.model, DecoderModel):
            curves["decode"] = [self._decoding_rate(subject, length) for length in lengths]
        figures = {
            f"{name}_at_{length}": rate
            for name, rates in curves.items()
            for length, rate in zip(lengths, rates, strict=True)
        }
        figures |= {f"{name}_longest": rates[-1] for name, rates in curves.items()}
        x = [float(length) for length in lengths]
        series = [Series(name, x, rates, "length in tokens", "tokens a second") for name, rates in curves.items()]
        return Measured(figures, series)

    def _rate(self, tokens: TokenBatch, turn: Callable[[], None]) -> float:
        turn()
        return tokens.ids.numel() / self._fastest(turn)

    def _fastest(self, turn: Callable[[], None]) -> float:
        times = []
        for _ in range(self.options.repeats):
            began = time.perf_counter()
            turn()
            times.append(time.perf_counter() - began)
        return min(times)

    def _decoding_rate(self, subject: Subject, length: int) -> float:
        """Decoded tokens a second after a prompt, up to this length."""
        assert isinstance(subject.model, DecoderModel)
        model, count = subject.model, min(self.options.decode, length)
        first = random_tokens(subject, 1, max(1, length - count))
        times = []
        for _ in range(self.options.repeats):
            with torch.inference_mode():
                session = model.start()
                session.step(first)
                one = random_tokens(subject, 1, 1)
                began = time.perf_counter()
                for _ in range(count):
                    session.step(one)
                times.append(time.perf_counter() - began)
        return count / min(times)


def _step(subject: Subject, tokens: TokenBatch) -> None:
    """Forward and backward pass in training mode; gradients are discarded."""
    subject.model.train()
    with torch.enable_grad():
        subject.model(tokens).square().mean().backward()
    subject.model.zero_grad(set_to_none=True)
    subject.model.eval()


@torch.inference_mode()
def _forward(subject: Subject, tokens: TokenBatch) -> None:
    subject.model(tokens)
