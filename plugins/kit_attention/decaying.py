"""Sums over the past that fades at a rate of each head, in chunks: Retentive Network (Sun et al. 2023), section 2.

Shapes: B rows, H heads, L tokens, N chunks, C tokens in a chunk, E width of a key, F width of a value.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

_CHUNK = 128


def decayed_sums(
    q_BHLE: Tensor, k_BHLE: Tensor, v_BHLF: Tensor, log_rate_H: Tensor, known_BHEF: Tensor | None
) -> Tensor:
    """For each query, the sum of rate^(distance) (q · k) v over keys no later than it: [B, H, L, F]."""
    length = q_BHLE.shape[2]
    size = min(_CHUNK, length)
    missing = -length % size
    q_BHNCE, k_BHNCE, v_BHNCF = (
        (F.pad(each, (0, 0, 0, missing)) if missing else each).unflatten(2, (-1, size))
        for each in (q_BHLE, k_BHLE, v_BHLF)
    )
    step_C = torch.arange(size, device=q_BHLE.device, dtype=q_BHLE.dtype)
    left_HCC = (log_rate_H[:, None, None] * (step_C[:, None] - step_C).clamp(min=0)).exp().tril()
    within_BHNCF = ((q_BHNCE @ k_BHNCE.transpose(-1, -2)) * left_HCC[:, None]) @ v_BHNCF
    # What each chunk leaves behind at its end, and what is left of that at every place of the next.
    ending_HC1 = (log_rate_H[:, None] * (size - 1 - step_C)).exp()[..., None]
    since_HC1 = (log_rate_H[:, None] * (step_C + 1)).exp()[..., None]
    each_BHNEF = (k_BHNCE * ending_HC1[:, None]).transpose(-1, -2) @ v_BHNCF
    over_H11 = (log_rate_H * size).exp()[:, None, None]
    before = [torch.zeros_like(each_BHNEF[:, :, 0]) if known_BHEF is None else known_BHEF]
    for chunk_BHEF in each_BHNEF.unbind(2)[:-1]:
        before.append(before[-1] * over_H11 + chunk_BHEF)
    out_BHNCF = within_BHNCF + (q_BHNCE * since_HC1[:, None]) @ torch.stack(before, 2)
    out_BHLF: Tensor = out_BHNCF.flatten(2, 3)
    return out_BHLF[:, :, :length] if missing else out_BHLF


def decayed_total(
    k_BHLE: Tensor, v_BHLF: Tensor, log_rate_H: Tensor, known_BHEF: Tensor | None, real_BL: Tensor | None
) -> Tensor:
    """What is left of all keys, and of what was known, after each row's last real token: [B, H, E, F]."""
    length = k_BHLE.shape[2]
    place_L = torch.arange(length, device=k_BHLE.device)
    count_B1 = torch.full((1, 1), length, device=k_BHLE.device) if real_BL is None else real_BL.sum(1, keepdim=True)
    since_BL = (count_B1 - 1 - place_L).clamp(min=0).to(k_BHLE.dtype)
    left_BHL = (log_rate_H[:, None] * since_BL[:, None]).exp()
    total_BHEF = (k_BHLE * left_BHL[..., None]).transpose(-1, -2) @ v_BHLF
    if known_BHEF is None:
        return total_BHEF
    return total_BHEF + known_BHEF * (log_rate_H * count_B1.to(k_BHLE.dtype)).exp()[:, :, None, None]
