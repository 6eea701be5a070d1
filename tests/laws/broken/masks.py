"""Masks that break one law each."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from kit import Mask, MaskFeatures, Options


class BrokenOptions(Options):
    use: Literal["broken"] = "broken"


class Broken(Mask):
    options_type = BrokenOptions
    breaks: tuple[str, ...] = ()

    def allows(self, q: Tensor, k: Tensor, features: MaskFeatures) -> Tensor:
        return (q - k).abs() < 3


class LooksAtTheShape(Broken):
    breaks = ("mask.pointwise",)

    def allows(self, q: Tensor, k: Tensor, features: MaskFeatures) -> Tensor:
        return (q - k).abs() < max(2, q.shape[1] // 2)


class BoastsOfHiding(Broken):
    breaks = ("mask.declared_shape",)
    hides_future = True


class LooksAtTheEnd(Broken):
    breaks = ("mask.prefix_consistency",)

    def allows(self, q: Tensor, k: Tensor, features: MaskFeatures) -> Tensor:
        return (k > k.max() - 3) & (q >= 0)


class WillNotBeTurned(Broken):
    breaks = ("mask.algebra",)

    def __invert__(self) -> Mask:
        return self


class DoesNotSayWhatItNeeds(Broken):
    breaks = ("mask.missing_features",)

    def allows(self, q: Tensor, k: Tensor, features: MaskFeatures) -> Tensor:
        return features.query["document"] == features.key["document"]


class BoastsOfCausal(Broken):
    """A window that calls itself causal: kernels then leave the window out."""

    breaks = ("mask.lowerings",)
    shape = "causal"
    hides_future = True

    def allows(self, q: Tensor, k: Tensor, features: MaskFeatures) -> Tensor:
        return torch.logical_and(k <= q, q - k < 3)
