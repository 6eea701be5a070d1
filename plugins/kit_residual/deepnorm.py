"""DeepNorm, post-norm with an up-weighted skip and down-scaled initial weights: DeepNet (Wang et al. 2022).

The paper's figure 2, N layers in the encoder and M in the decoder:

| model           | encoder: alpha       | encoder: beta         | decoder: alpha | decoder: beta |
|-----------------|----------------------|-----------------------|----------------|---------------|
| encoder         | (2N)^(1/4)           | (8N)^(-1/4)           |                |               |
| decoder         |                      |                       | (2M)^(1/4)     | (8M)^(-1/4)   |
| encoder-decoder | 0.81 (N^4 M)^(1/16)  | 0.87 (N^4 M)^(-1/16)  | (3M)^(1/4)     | (12M)^(-1/4)  |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from kit import Attention, BuildContext, Dims, Feedforward, Options, Part, Residual, Sublayer


class DeepnormOptions(Options):
    """DeepNorm: norm(alpha · x + sublayer(x)), with value and output weights scaled by beta at initialisation."""

    use: Literal["deepnorm"] = "deepnorm"


def alpha_beta(build_context: BuildContext) -> tuple[float, float]:
    """Alpha, the weight of the skip, and beta, the scale of initial weights, from the depths of the model."""
    other = build_context.depths.get("decoder" if build_context.stack == "encoder" else "encoder")
    if other is None:
        return (2 * build_context.depth) ** 0.25, (8 * build_context.depth) ** -0.25
    if build_context.stack == "encoder":
        product = build_context.depth**4 * other
        return 0.81 * product ** (1 / 16), 0.87 * product ** (-1 / 16)
    return (3 * build_context.depth) ** 0.25, (12 * build_context.depth) ** -0.25


class DeepnormResidual(Residual):
    """Post-norm with bounded updates at any depth."""

    options_type = DeepnormOptions

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.alpha, self.beta = alpha_beta(build_context)
        self.norms = nn.ModuleDict({name: self.new_norm() for name in build_context.sublayers})

    def forward(self, x: Tensor, sublayers: Sequence[Sublayer]) -> Tensor:
        """x: [..., width]; the same shape."""
        for norm, sublayer in zip(self.norms.values(), sublayers, strict=True):
            x = norm(self.alpha * x + self.dropout(sublayer(x)))
        return x

    @torch.no_grad()
    def initialise(self, sublayers: Mapping[str, Part]) -> None:
        """Scales feed-forward, value and output weights by beta; queries and keys are unchanged."""
        for part in sublayers.values():
            assert isinstance(part, (Attention, Feedforward))
            for weight in part.value_output_parameters():
                weight.mul_(self.beta)

    def extra_repr(self) -> str:
        """Alpha and beta."""
        return f"alpha={self.alpha:.4g}, beta={self.beta:.4g}"
