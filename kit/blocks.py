"""Masks as blocks for FlexAttention (Dong et al. 2024): on CUDA, blocks of pairs that a mask hides are never computed.

Shapes: B rows, H heads, G groups of keys, Q queries, K keys, E width of a key, F width of a value.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from kit.contracts.mask import Facts

if TYPE_CHECKING:
    from kit.scope import Scope

WORTHWHILE = 256
"""Fewer queries than this are done sooner with a dense mask than with a list of blocks."""


def worthwhile(scope: Scope, q_BHQE: Tensor, v_BGKF: Tensor) -> bool:
    """Whether a scope is better lowered to blocks: on CUDA, for a mask over a long text, in widths it can do."""
    widths = {q_BHQE.shape[-1], v_BGKF.shape[-1]}
    return (
        q_BHQE.is_cuda
        and scope.mask is not None
        and scope.queries.length >= WORTHWHILE
        and all(width >= 16 and width & (width - 1) == 0 for width in widths)
    )


def block_mask(scope: Scope) -> BlockMask:
    """Which blocks of pairs hold one that is allowed, from the mask itself: no dense mask is made."""
    mask, queries, keys = scope.mask, scope.queries, scope.keys
    assert mask is not None
    q_order = queries.order.expand(queries.rows, -1)
    k_order = keys.order.expand(keys.rows, -1)

    def allows(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        facts = Facts(
            {name: fact[b, q] for name, fact in queries.facts.items()},
            {name: fact[b, k] for name, fact in keys.facts.items()},
        )
        allowed = mask.allows(q_order[b, q], k_order[b, k], facts)
        return allowed if keys.valid is None else allowed & keys.valid[b, k]

    return create_block_mask(allows, queries.rows, None, queries.length, keys.length, device=queries.device)


def attend_in_blocks(q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, blocks: BlockMask, scale: float) -> Tensor:
    """Scaled dot-product attention over the blocks: [B, H, Q, F]."""
    grouped = k_BGKE.shape[1] != q_BHQE.shape[1]
    kernel: Any = _compiled() if q_BHQE.is_cuda else flex_attention
    attended: Tensor = kernel(q_BHQE, k_BGKE, v_BGKF, block_mask=blocks, scale=scale, enable_gqa=grouped)
    return attended


@lru_cache(maxsize=1)
def _compiled() -> Any:
    """The kernel proper: FlexAttention computes everything densely unless it is compiled."""
    return torch.compile(flex_attention, dynamic=True)
