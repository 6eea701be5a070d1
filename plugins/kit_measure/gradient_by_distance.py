"""Gradient by distance: vanishing gradients from the last output to earlier inputs (Bengio 1994; Pascanu 2013).

G(d) is the mean norm of the gradient of the last output, in a random direction, by the embedding of the token d back.
The slope of a straight line fitted to ln G(d) is the decay a token; 0 for no decay.
Shapes: B sequences, L tokens, D width.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import Field, PositiveInt
from torch import Tensor

from kit import Measure, Measured, Options, Series, Subject
from kit_measure.random_tokens import checked_length, parts_of, random_tokens


class GradientByDistanceOptions(Options):
    """Options of `gradient_by_distance`."""

    use: Literal["gradient_by_distance"] = "gradient_by_distance"
    length: PositiveInt | None = Field(default=None, ge=4)
    """The sequence length; left out, the model's maximum."""
    sequences: PositiveInt = 8
    """The number of sequences that are averaged."""


class GradientByDistanceMeasure(Measure):
    """The gradient norm of the last output by each input embedding, by distance."""

    options_type = GradientByDistanceOptions
    options: GradientByDistanceOptions

    def measure(self, subject: Subject) -> Measured:
        """One backward pass."""
        length = checked_length(subject, self.options.length)
        tokens = random_tokens(subject, self.options.sequences, length)
        caught: list[Tensor] = []

        def catch(module: Any, given: Any, made: Tensor) -> Tensor:
            vectors = made.detach().requires_grad_()
            caught.append(vectors)
            return vectors

        embedding, stack = parts_of(subject)
        last: list[Tensor] = []
        hooks = [
            embedding.register_forward_hook(catch),
            stack.register_forward_hook(lambda module, given, made: last.append(made)),
        ]
        try:
            with torch.enable_grad():
                subject.model(tokens)
                out_BD = last[0][:, -1]
                generator = torch.Generator().manual_seed(subject.seed)
                direction_BD = torch.randn(out_BD.shape, generator=generator).to(out_BD)
                (gradient_BLD,) = torch.autograd.grad((out_BD * direction_BD).sum(), caught[0])
        finally:
            for hook in hooks:
                hook.remove()
        norm_L = gradient_BLD.norm(dim=-1).mean(0).flip(0)
        return summary(norm_L)


def summary(norm_L: Tensor) -> Measured:
    """The curve, the slope of its logarithm, the R² of the line, and the log-ratio of both ends."""
    distance = torch.arange(len(norm_L), dtype=torch.float64)
    # Zero gradients are clamped to the smallest float, so that the logarithm is defined.
    logs = norm_L.double().clamp(min=torch.finfo(torch.float32).tiny).log()
    centred, rise = distance[1:] - distance[1:].mean(), logs[1:] - logs[1:].mean()
    slope = float((centred * rise).sum() / (centred**2).sum())
    spread = float((rise**2).sum())
    fit = 1 - float(((rise - slope * centred) ** 2).sum()) / spread if spread > 0 else 1.0
    figures = {"slope": slope, "fit": fit, "log_ratio": float(logs[-1] - logs[1])}
    curve = Series("gradient", distance.tolist(), norm_L.tolist(), "distance in tokens", "norm of the gradient", True)
    return Measured(figures, [curve])
