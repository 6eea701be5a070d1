"""FlexAttention with block masks (Dong et al. 2024): blocks of pairs that a mask hides are never computed.

Shapes: B rows, H heads, G key-value heads, Q queries, K keys, E head_dim of queries and keys, F head_dim of values.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, flex_attention


def block_sparse_attention(q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, blocks: BlockMask, scale: float) -> Tensor:
    """Computes scaled dot-product attention over the blocks of a mask: [B, H, Q, F]."""
    grouped = k_BGKE.shape[1] != q_BHQE.shape[1]
    kernel: Any = _compiled_flex_attention() if q_BHQE.is_cuda else flex_attention
    out_BHQF: Tensor = kernel(q_BHQE, k_BGKE, v_BGKF, block_mask=blocks, scale=scale, enable_gqa=grouped)
    return out_BHQF


@lru_cache(maxsize=1)
def _compiled_flex_attention() -> Any:
    """The fused kernel: FlexAttention computes everything densely unless it is compiled."""
    return torch.compile(flex_attention, dynamic=True)
