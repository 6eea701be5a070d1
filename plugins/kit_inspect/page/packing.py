"""Quantization of attention weights to 8 bits, and compression of a page's arrays into base64 text.

The square roots of weights are quantized, so that small weights keep their precision, and colours follow the bytes.
Shapes: Q queries, K keys.
"""

from __future__ import annotations

import base64
import gzip
from typing import Any

import torch
from torch import Tensor

STEPS = (255, 127, 63, 31)
"""Numbers of quantization levels, finest first: fewer compress better, and are tried before heads are left out."""
_INT16_MAX = 32767


class Packer:
    """A buffer that concatenates arrays, and returns the offset of each."""

    def __init__(self, steps: int = STEPS[0]) -> None:
        self.steps = steps
        self._arrays: list[bytes] = []
        self._size = 0
        self._mask_offsets: dict[bytes, int] = {}

    def add(self, data: bytes) -> int:
        """Appends bytes and returns their offset."""
        self._arrays.append(data)
        self._size += len(data)
        return self._size - len(data)

    def mask(self, mask_QK: Tensor) -> int | None:
        """Appends a mask [Q, K], a byte for each pair, unless an equal one is stored; None if nothing is masked."""
        if bool(mask_QK.all()):
            return None
        data = mask_QK.to(torch.uint8).numpy().tobytes()
        key = data + repr(tuple(mask_QK.shape)).encode()
        if key not in self._mask_offsets:
            self._mask_offsets[key] = self.add(data)
        return self._mask_offsets[key]

    def grid(self, values_QK: Tensor) -> dict[str, Any]:
        """Appends a matrix [Q, K] in 8 bits, and its row and column sums in 16; returns their offsets."""
        values_QK = values_QK.double().nan_to_num(0.0, 0.0, 0.0)
        data, peak, signed = quantized(values_QK, self.steps)
        found: dict[str, Any] = {"at": self.add(data), "peak": peak}
        if signed:
            found["signed"] = True
        for name, sums in (("rows", values_QK.sum(1)), ("columns", values_QK.sum(0))):
            most = float(sums.abs().max()) if len(sums) else 0.0
            levels = (sums / (most or 1.0) * _INT16_MAX).round().to(torch.int16)
            found[name] = [self.add(levels.numpy().astype("<i2").tobytes()), most]
        return found

    def packed(self) -> str:
        """Returns all arrays, compressed by gzip, as base64."""
        return base64.b64encode(gzip.compress(b"".join(self._arrays), 9, mtime=0)).decode()


def quantized(values_QK: Tensor, steps: int) -> tuple[bytes, float, bool]:
    """Quantizes a matrix; returns the bytes, the largest absolute value, and whether there are negative values.

    A byte b is peak · (b / steps)², and with signs ± peak · ((b − half) / half)² with half = steps // 2.
    """
    peak = float(values_QK.abs().max()) if values_QK.numel() else 0.0
    signed = bool((values_QK < 0).any())
    roots_QK = (values_QK.abs() / (peak or 1.0)).sqrt()
    half = steps // 2
    levels_QK = half + (roots_QK * values_QK.sign() * half).round() if signed else (roots_QK * steps).round()
    return levels_QK.to(torch.uint8).contiguous().numpy().tobytes(), peak, signed
