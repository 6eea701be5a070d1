"""Residuals that break one law each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from torch import Tensor

from kit import BuildContext, Dims, Options, Residual, Sublayer


class BrokenOptions(Options):
    use: Literal["broken"] = "broken"


class Broken(Residual):
    options_type = BrokenOptions
    breaks: tuple[str, ...] = ()

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.norm = self.new_norm()

    def forward(self, x: Tensor, sublayers: Sequence[Sublayer]) -> Tensor:
        for sublayer in sublayers:
            x = x + sublayer(self.norm(x))
        return x


class WrongShape(Broken):
    breaks = ("residual.shape",)

    def end_stream(self, stream: Tensor) -> Tensor:
        return stream[..., :-1]


class CallsTwice(Broken):
    breaks = ("residual.each_sublayer_once",)

    def forward(self, x: Tensor, sublayers: Sequence[Sublayer]) -> Tensor:
        for sublayer in sublayers:
            x = x + 0.5 * (sublayer(self.norm(x)) + sublayer(self.norm(x)))
        return x


class LeavesOneOut(Broken):
    breaks = ("residual.sublayers_contribute",)

    def forward(self, x: Tensor, sublayers: Sequence[Sublayer]) -> Tensor:
        outs = [sublayer(self.norm(x)) for sublayer in sublayers]
        return x + outs[0] + 0.0 * outs[-1]


class MixesTokens(Broken):
    breaks = ("residual.token_independence",)

    def end_stream(self, stream: Tensor) -> Tensor:
        return stream + 0.1 * stream.mean(-2, keepdim=True)


class BoastsOfIdentity(Broken):
    breaks = ("residual.identity_at_init",)
    starts_as_identity = True


class Explodes(Broken):
    breaks = ("residual.deep_gradients",)

    def forward(self, x: Tensor, sublayers: Sequence[Sublayer]) -> Tensor:
        for sublayer in sublayers:
            x = 1.5 * x + sublayer(self.norm(x))
        return x
