"""Positions that break one law each."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from kit import Options, Position


class BrokenOptions(Options):
    use: Literal["broken"] = "broken"


class Broken(Position):
    options_type = BrokenOptions
    breaks: tuple[str, ...] = ()


class WrongShape(Broken):
    breaks = ("position.shape",)

    def embed(self, x: Tensor, at: Tensor) -> Tensor:
        return x[..., :-1] + at.unsqueeze(-1)


class CountsFromItsOwnStart(Broken):
    breaks = ("position.position_offset",)

    def embed(self, x: Tensor, at: Tensor) -> Tensor:
        return x + (at - at.min()).unsqueeze(-1)


class BoastsOfDistance(Broken):
    breaks = ("position.shift_invariance",)
    relative = True

    def bias(self, q_at_BQ: Tensor, k_at_BK: Tensor) -> Tensor:
        return (q_at_BQ[:, None, :, None] - 1.01 * k_at_BK[:, None, None, :]).double()


class TellsNothing(Broken):
    breaks = ("position.order_matters",)

    def embed(self, x: Tensor, at: Tensor) -> Tensor:
        return x + 1.0


class Clamps(Broken):
    """Says where it ends, and serves later tokens all the same."""

    breaks = ("position.length_limit",)
    longest = 100

    def embed(self, x: Tensor, at: Tensor) -> Tensor:
        return x + at.clamp(max=99).unsqueeze(-1)


class CountsInHalf(Broken):
    """The angle is made in the type of the queries."""

    breaks = ("position.half_precision",)

    def rotate(self, x_BHLE: Tensor, at_BL: Tensor, side: Literal["query", "key"]) -> Tensor:
        angle = at_BL.to(x_BHLE.dtype)[:, None, :, None]
        return x_BHLE * torch.cos(angle)
