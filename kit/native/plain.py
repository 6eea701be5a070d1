"""Which tensors our own C++ can be asked for: others (spread over processes, traced) are left to torch."""

from __future__ import annotations

import torch
from torch import Tensor


def is_plain(x: Tensor) -> bool:
    """Float32 of a CPU, of torch's own class, and not transformed by torch.func."""
    own = type(x) is Tensor and x.device.type == "cpu" and x.dtype == torch.float32
    return own and not torch._C._are_functorch_transforms_active()
