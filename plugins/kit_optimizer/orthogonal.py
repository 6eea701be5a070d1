"""The nearest orthogonal matrix, roughly and quickly: the quintic Newton-Schulz iteration of Muon (Jordan et al. 2024).

Shapes: M rows, N columns, K the smaller of the two.
"""

from __future__ import annotations

import torch
from torch import Tensor

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Chosen by the authors to lift small singular values as fast as possible; all end up between about 0.7 and 1.2."""


def orthogonalized(matrix: Tensor, iterations: int) -> Tensor:
    """A matrix of the same shape whose singular values are all near 1; one that is spread over processes stays so."""
    from torch.distributed.tensor import DTensor, Replicate

    if not isinstance(matrix, DTensor):
        return _iterate(matrix, iterations)
    # Every process works on the whole matrix: one gathering, not two in each iteration, and the same numbers as alone.
    mesh, placements = matrix.device_mesh, matrix.placements
    whole = _iterate(matrix.full_tensor(), iterations)
    return DTensor.from_local(whole, mesh, [Replicate()] * mesh.ndim).redistribute(mesh, placements)


def _iterate(matrix_MN: Tensor, iterations: int) -> Tensor:
    # Half precision is what the authors use and is fast on a GPU; on a CPU it is slower than float32, and rougher.
    precise = torch.promote_types(matrix_MN.dtype, torch.float32)
    x_KN = matrix_MN.to(torch.bfloat16 if matrix_MN.is_cuda else precise)
    tall = x_KN.size(0) > x_KN.size(1)
    if tall:
        x_KN = x_KN.T
    x_KN = x_KN / x_KN.norm().clamp(min=1e-7)
    a, b, c = COEFFICIENTS
    for _ in range(iterations):
        gram_KK = x_KN @ x_KN.T
        polynomial_KK = torch.addmm(gram_KK, gram_KK, gram_KK, beta=b, alpha=c)
        x_KN = torch.addmm(x_KN, polynomial_KK, x_KN, beta=a)
    return (x_KN.T if tall else x_KN).to(matrix_MN.dtype)
