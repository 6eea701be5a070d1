"""The gradient norm of the loss by layer (Xiong et al. 2020, figure 3)."""

from __future__ import annotations

import re
from typing import Literal

import torch
from pydantic import PositiveInt

from kit import Measure, Measured, Options, Series, Subject


class GradientByLayerOptions(Options):
    """Options of `gradient_by_layer`."""

    use: Literal["gradient_by_layer"] = "gradient_by_layer"
    examples: PositiveInt = 32
    """Examples of the training split that the loss is taken over."""


class GradientByLayerMeasure(Measure):
    """Norms of the gradients of all parameters of a layer, from the first layer to the last."""

    options_type = GradientByLayerOptions
    options: GradientByLayerOptions

    def measure(self, subject: Subject) -> Measured:
        """One backward pass for each batch."""
        model = subject.model
        model.zero_grad(set_to_none=True)
        total = 0
        with torch.enable_grad():
            for batch in subject.batches("train", self.options.examples):
                loss = subject.objective.loss(model, batch)
                loss.total.backward()
                total += loss.num_predictions
        squares: dict[int, float] = {}
        for name, parameter in model.named_parameters():
            found = re.search(r"\.layers\.(\d+)\.", name)
            if found is not None and parameter.grad is not None:
                number = int(found[1])
                squares[number] = squares.get(number, 0.0) + float((parameter.grad / total).pow(2).sum())
        model.zero_grad(set_to_none=True)
        if not squares:
            return Measured()
        norms = [squares[number] ** 0.5 for number in sorted(squares)]
        figures = {"first": norms[0], "last": norms[-1], "last_over_first": norms[-1] / max(norms[0], 1e-30)}
        layers = [float(number + 1) for number in sorted(squares)]
        return Measured(figures, [Series("gradient", layers, norms, "layer", "norm of the gradient", True)])
