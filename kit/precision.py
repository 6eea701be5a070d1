"""Leaving autocast for a moment, where half precision would spoil a sum."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def without_autocast(like: Tensor) -> AbstractContextManager[object]:
    """A stretch in which tensors on the device of `like` keep their types; also for devices that know no autocast."""
    device = like.device.type
    return torch.autocast(device, enabled=False) if torch.amp.is_autocast_available(device) else nullcontext()
