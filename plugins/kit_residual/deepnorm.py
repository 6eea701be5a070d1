"""Norm after a weighted skip, with sublayers that begin small: DeepNet (Wang et al. 2022).

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

from kit import Attention, Dims, Feedforward, Options, Part, Residual, Site, Sublayer


class DeepnormOptions(Options):
    """x becomes norm(alpha · x + sublayer(x)); weights that carry values begin beta times as large."""

    use: Literal["deepnorm"] = "deepnorm"


def alpha_beta(site: Site) -> tuple[float, float]:
    """The weight of the skip and the size of a new sublayer, from the depths of the model."""
    other = site.depths.get("decoder" if site.stack == "encoder" else "encoder")
    if other is None:
        return (2 * site.depth) ** 0.25, (8 * site.depth) ** -0.25
    if site.stack == "encoder":
        product = site.depth**4 * other
        return 0.81 * product ** (1 / 16), 0.87 * product ** (-1 / 16)
    return (3 * site.depth) ** 0.25, (12 * site.depth) ** -0.25


class DeepnormResidual(Residual):
    """As post-norm, but updates stay bounded at any depth."""

    options_type = DeepnormOptions

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        self.alpha, self.beta = alpha_beta(site)
        self.norms = nn.ModuleDict({name: self.new_norm() for name in site.sublayers})

    def forward(self, x: Tensor, sublayers: Sequence[Sublayer]) -> Tensor:
        """x: [..., width]."""
        for norm, sublayer in zip(self.norms.values(), sublayers, strict=True):
            x = norm(self.alpha * x + self.dropout(sublayer(x)))
        return x

    @torch.no_grad()
    def initialise(self, sublayers: Mapping[str, Part]) -> None:
        """Scale what carries values by beta; queries and keys begin as they are."""
        for part in sublayers.values():
            assert isinstance(part, (Attention, Feedforward))
            for weight in part.value_path():
                weight.mul_(self.beta)

    def extra_repr(self) -> str:
        """The two numbers."""
        return f"alpha={self.alpha:.4g}, beta={self.beta:.4g}"
