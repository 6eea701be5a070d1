"""Numbers as bytes: weights in 8 bits, everything of a page compressed and written as text.

Roots are rounded, not the weights: a colour then follows the byte, and a small weight keeps its first digits.
Shapes: Q queries, K keys.
"""

from __future__ import annotations

import base64
import gzip
from typing import Any

import torch
from torch import Tensor

STEPS = (255, 127, 63, 31)
"""How finely roots are rounded: fewer steps compress better, and are taken before heads are left out."""
_FINE = 32767


class Packer:
    """Puts arrays one after the other, and says where each is."""

    def __init__(self, steps: int = STEPS[0]) -> None:
        self.steps = steps
        self._pieces: list[bytes] = []
        self._size = 0
        self._known: dict[bytes, int] = {}

    def add(self, data: bytes) -> int:
        """Where these bytes begin."""
        self._pieces.append(data)
        self._size += len(data)
        return self._size - len(data)

    def mask(self, allowed_QK: Tensor) -> int | None:
        """Where it begins, a byte for each pair; None where everything is allowed. The same mask is kept once."""
        if bool(allowed_QK.all()):
            return None
        data = allowed_QK.to(torch.uint8).numpy().tobytes()
        key = data + repr(tuple(allowed_QK.shape)).encode()
        if key not in self._known:
            self._known[key] = self.add(data)
        return self._known[key]

    def grid(self, values_QK: Tensor) -> dict[str, Any]:
        """Numbers of any size in 8 bits, and their sums in 16."""
        values_QK = values_QK.double().nan_to_num(0.0, 0.0, 0.0)
        data, peak, signed = rounded(values_QK, self.steps)
        found: dict[str, Any] = {"at": self.add(data), "peak": peak}
        if signed:
            found["signed"] = True
        for name, sums in (("rows", values_QK.sum(1)), ("columns", values_QK.sum(0))):
            most = float(sums.abs().max()) if len(sums) else 0.0
            fine = (sums / (most or 1.0) * _FINE).round().to(torch.int16)
            found[name] = [self.add(fine.numpy().astype("<i2").tobytes()), most]
        return found

    def packed(self) -> str:
        """Everything, as text."""
        return base64.b64encode(gzip.compress(b"".join(self._pieces), 9, mtime=0)).decode()


def rounded(values_QK: Tensor, steps: int) -> tuple[bytes, float, bool]:
    """The bytes, the size that the largest stands for, and whether there are negative ones.

    A byte b is peak · (b / steps)², and with signs ± peak · ((b − half) / half)² with half = steps // 2.
    """
    peak = float(values_QK.abs().max()) if values_QK.numel() else 0.0
    signed = bool((values_QK < 0).any())
    roots_QK = (values_QK.abs() / (peak or 1.0)).sqrt()
    half = steps // 2
    levels_QK = half + (roots_QK * values_QK.sign() * half).round() if signed else (roots_QK * steps).round()
    return levels_QK.to(torch.uint8).contiguous().numpy().tobytes(), peak, signed
