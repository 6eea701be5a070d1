"""Softmax saturation: the sharpness of attention and the gradient it passes on (Vaswani et al. 2017, section 3.2.1).

A saturated softmax passes no gradient to its logits: the derivative of a weight a_j by its own logit is a_j (1 - a_j).
Their sum over keys, 1 - sum a_j^2, is 0 for one key and (n - 1) / n for n equal weights.
Shapes: B sequences, H heads, Q queries, K keys.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import PositiveInt
from torch import Tensor

from kit import AttentionRecorder, Measure, Measured, Options, Series, Subject
from kit_measure.random_tokens import checked_length, random_tokens

SATURATED = 0.9
"""A query whose largest weight is above this is saturated."""


class SaturationOptions(Options):
    """Options of `saturation`."""

    use: Literal["saturation"] = "saturation"
    length: PositiveInt | None = None
    """The sequence length; left out, the model's maximum."""
    sequences: PositiveInt = 8
    """The number of sequences that are averaged."""


class SaturationMeasure(Measure):
    """The largest weight of a query, its entropy, and the gradient that its softmax passes on."""

    options_type = SaturationOptions
    options: SaturationOptions

    @torch.no_grad()
    def measure(self, subject: Subject) -> Measured:
        """Over the queries of the second half of each sequence, which see many keys."""
        length = checked_length(subject, self.options.length)
        recorder = AttentionRecorder()
        subject.model(random_tokens(subject, self.options.sequences, length), observer=recorder)
        layers = [each[:, :, length // 2 :] for each in recorder.by_site.values()]
        if not layers:
            return Measured()
        sharpest = [float(layer.amax(-1).mean()) for layer in layers]
        passed = [float((1 - layer.pow(2).sum(-1)).mean()) for layer in layers]
        saturated = [float((layer.amax(-1) > SATURATED).float().mean()) for layer in layers]
        entropy = [float(_entropy(layer).mean()) for layer in layers]
        figures = {
            "largest_weight": sum(sharpest) / len(layers),
            "saturated": sum(saturated) / len(layers),
            "entropy": sum(entropy) / len(layers),
            "passed_on": sum(passed) / len(layers),
        }
        numbers = [float(number + 1) for number in range(len(layers))]
        return Measured(
            figures,
            [
                Series("largest weight", numbers, sharpest, "layer", "largest weight of a query"),
                Series("gradient passed on", numbers, passed, "layer", "1 - sum of squared weights"),
            ],
        )


def _entropy(weights_BHQK: Tensor) -> Tensor:
    """[B, H, Q]: the entropy of each query's weights over its maximum ln n."""
    keys_BHQ = (weights_BHQK > 0).sum(-1).clamp(min=2)
    entropy_BHQ: Tensor = torch.special.entr(weights_BHQK).sum(-1)
    return entropy_BHQ / keys_BHQ.to(weights_BHQK.dtype).log()
