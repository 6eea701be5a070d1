"""Norms that break one law each; laws of every kind of part are broken here too."""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from kit import BuildContext, Dims, Norm, Options


class BrokenOptions(Options):
    use: Literal["broken"] = "broken"
    groups: PositiveInt = 2


class Broken(Norm):
    options_type = BrokenOptions
    breaks: tuple[str, ...] = ()

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.gain = nn.Parameter(torch.ones(dims.width))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.rms_norm(x, x.shape[-1:], self.gain, 1e-6)


class WrongShape(Broken):
    breaks = ("norm.shape",)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).mean(-1, keepdim=True)


class MixesVectors(Broken):
    breaks = ("norm.token_independence",)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x - x.reshape(-1, x.shape[-1]).mean(0))


class DividesByNothing(Broken):
    breaks = ("norm.numerical_range",)

    def forward(self, x: Tensor) -> Tensor:
        return self.gain * x / x.square().mean(-1, keepdim=True).sqrt()


class TrainsNothing(Broken):
    breaks = ("part.gradients",)

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.unused = nn.Parameter(torch.ones(3))


class CutsAGradient(Broken):
    breaks = ("part.gradcheck",)

    def forward(self, x: Tensor) -> Tensor:
        return self.gain * x * (x.square().mean(-1, keepdim=True).detach() + 1e-6).rsqrt()


class CutsAParameter(Broken):
    breaks = ("part.gradcheck",)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * self.gain.detach().sum()


class LosesItsDigits(Broken):
    breaks = ("part.autocast",)

    def forward(self, x: Tensor) -> Tensor:
        if torch.is_autocast_enabled("cpu"):
            x = (x.bfloat16() + 100.0) - 100.0
        return super().forward(x).to(x.dtype)


class OtherwiseWithoutGradients(Broken):
    breaks = ("part.grad_modes",)

    def forward(self, x: Tensor) -> Tensor:
        out = super().forward(x)
        return out if torch.is_grad_enabled() else 1.01 * out


class KeepsASecret(Broken):
    """What it gives depends on numbers that are not saved."""

    breaks = ("part.state_dict",)

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.secret = float(torch.rand((), device="cpu"))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + self.secret


class PlaysDice(Broken):
    breaks = ("part.reproducibility",)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + 1e-3 * torch.rand_like(x)


class LooksAtNumbers(Broken):
    breaks = ("part.meta_device",)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) if float(x.detach().sum()) < 1e9 else x


class TakesAnyOption(Broken):
    """Accepts groups that do not divide the width, and falls over them."""

    breaks = ("part.invalid_options",)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.unflatten(-1, (self.options.groups, -1)).flatten(-2))  # type: ignore[attr-defined]


class KeepsATensorToItself(Broken):
    """A table that stays on the CPU when the part moves."""

    breaks = ("part.registered_tensors",)

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.table = torch.ones(dims.width, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * self.table.to(x)


class RemembersTheDevice(Broken):
    """A table that is made in the first pass and used in all that follow, wherever they run."""

    breaks = ("part.registered_tensors",)
    table: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.table is None:
            self.table = torch.ones_like(x[..., :1])
        return super().forward(x) * self.table


class Counts(Broken):
    """Two processes that see different batches would count differently."""

    breaks = ("part.no_hidden_state",)
    passes = 0

    def forward(self, x: Tensor) -> Tensor:
        self.passes += 1
        return super().forward(x)
