"""How sharp attention is and what is left of its gradient: what 1/sqrt(d) is for (Vaswani et al. 2017, section 3.2.1).

A softmax that has settled on one key passes no gradient to the scores: for weights a the slope of a_j by its own score
is a_j (1 - a_j). Their sum over keys, 1 - sum a_j^2, is 0 for one key and (n - 1) / n for n keys alike.
Shapes: B texts, H heads, Q queries, K keys.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import PositiveInt
from torch import Tensor

from kit import Measure, Measured, Options, Recorder, Series, Subject
from kit_measure.texts import longest, random_tokens

SATURATED = 0.9
"""A query that gives more than this to one key has settled."""


class SaturationOptions(Options):
    """Options of `saturation`."""

    use: Literal["saturation"] = "saturation"
    length: PositiveInt | None = None
    """How long the texts are; left out, as long as the model is made for."""
    texts: PositiveInt = 8
    """How many texts are averaged over."""


class SaturationMeasure(Measure):
    """The largest weight of a query, its entropy, and how much gradient its softmax passes on."""

    options_type = SaturationOptions
    options: SaturationOptions

    @torch.no_grad()
    def measure(self, subject: Subject) -> Measured:
        """Over the queries that see at least half of a text, so that there is something to choose from."""
        length = longest(subject, self.options.length)
        recorder = Recorder()
        subject.model(random_tokens(subject, self.options.texts, length), watcher=recorder)
        layers = [each[:, :, length // 2 :] for each in recorder.by_site.values()]
        if not layers:
            return Measured()
        sharpest = [float(layer.amax(-1).mean()) for layer in layers]
        passed = [float((1 - layer.pow(2).sum(-1)).mean()) for layer in layers]
        settled = [float((layer.amax(-1) > SATURATED).float().mean()) for layer in layers]
        entropy = [float(_entropy(layer).mean()) for layer in layers]
        figures = {
            "largest_weight": sum(sharpest) / len(layers),
            "settled": sum(settled) / len(layers),
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
    """[B, H, Q]: of each query's weights, as a share of the entropy of keys that all get the same."""
    keys_BHQ = (weights_BHQK > 0).sum(-1).clamp(min=2)
    entropy_BHQ: Tensor = torch.special.entr(weights_BHQK).sum(-1)
    return entropy_BHQ / keys_BHQ.to(weights_BHQK.dtype).log()
