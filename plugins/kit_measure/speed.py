"""Tokens a second over the length of texts: training, reading a whole text, and writing token by token."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
from pydantic import Field, PositiveInt

from kit import DecoderModel, Measure, Measured, Options, Series, Subject, Tokens
from kit_measure.texts import longest, random_tokens


class SpeedOptions(Options):
    """Options of `speed`. Wants a machine that does nothing else meanwhile."""

    use: Literal["speed"] = "speed"
    lengths: list[PositiveInt] = Field(default=[32, 128, 512], min_length=1)
    """The lengths that are tried, in tokens."""
    tokens: PositiveInt = 2048
    """Tokens in a batch of texts, so that every length does the same amount of work; at least one text."""
    repeats: PositiveInt = 3
    """The fastest of so many turns counts: what disturbs a measurement only ever makes it slower."""
    write: PositiveInt = 32
    """How many tokens are written, after as many were read, to see how fast that goes; only for decoders."""


class SpeedMeasure(Measure):
    """Curves of tokens a second, and the figures of the shortest and the longest texts."""

    options_type = SpeedOptions
    options: SpeedOptions

    def measure(self, subject: Subject) -> Measured:
        """Every length in turn."""
        lengths = sorted(self.options.lengths)
        longest(subject, lengths[-1])
        curves: dict[str, list[float]] = {"train": [], "read": []}
        for length in lengths:
            tokens = random_tokens(subject, max(1, self.options.tokens // length), length)
            curves["train"].append(self._rate(tokens, partial(_step, subject, tokens)))
            curves["read"].append(self._rate(tokens, partial(_read, subject, tokens)))
        if isinstance(subject.model, DecoderModel):
            curves["write"] = [self._writing(subject, length) for length in lengths]
        figures = {
            f"{name}_at_{length}": rate
            for name, rates in curves.items()
            for length, rate in zip(lengths, rates, strict=True)
        }
        figures |= {f"{name}_longest": rates[-1] for name, rates in curves.items()}
        x = [float(length) for length in lengths]
        series = [Series(name, x, rates, "length in tokens", "tokens a second") for name, rates in curves.items()]
        return Measured(figures, series)

    def _rate(self, tokens: Tokens, turn: Callable[[], None]) -> float:
        turn()
        return tokens.ids.numel() / self._fastest(turn)

    def _fastest(self, turn: Callable[[], None]) -> float:
        times = []
        for _ in range(self.options.repeats):
            began = time.perf_counter()
            turn()
            times.append(time.perf_counter() - began)
        return min(times)

    def _writing(self, subject: Subject, length: int) -> float:
        """Tokens a second while one text of this length is continued, one token after another."""
        assert isinstance(subject.model, DecoderModel)
        model, count = subject.model, min(self.options.write, length)
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


def _step(subject: Subject, tokens: Tokens) -> None:
    """Forward and backward in training mode; the gradient is thrown away."""
    subject.model.train()
    with torch.enable_grad():
        subject.model(tokens).square().mean().backward()
    subject.model.zero_grad(set_to_none=True)
    subject.model.eval()


@torch.inference_mode()
def _read(subject: Subject, tokens: Tokens) -> None:
    subject.model(tokens)
