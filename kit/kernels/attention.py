"""Scaled dot-product attention: the one place that chooses an implementation for a call, and those made of torch's bmm.

An implementation is torch's fused SDPA, a few batched matrix products (bmm, below), the C++ of kernels/cpp for decoding
and for packed sequences, or FlexAttention.

Shapes: B rows, H heads, G key-value heads, Q queries, K keys, E head_dim of queries and keys, F head_dim of values;
R = B * H; N = queries of all heads that share a key-value head.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from kit.kernels.cpp import decode, varlen_attention

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

MAX_SEQ_LEN = 128
"""Up to so many queries and keys, training keeps attention weights: they take little memory then."""
MIN_BATCH_HEADS = 64
"""Minimum batch * heads at which bmm beats SDPA in training despite extra Python overhead."""
MIN_TRANSPOSED_BATCH_HEADS = 128
"""Minimum batch * key-value heads at which keys are stored transposed for several queries."""
MAX_TRANSPOSED_QUERIES = 64
"""Up to so many queries, bmm reads transposed keys; SDPA serves more."""
MAX_BMM_QUERIES = 8
"""The same for keys that are not transposed."""
MIN_BMM_BATCH_HEADS = 16
"""Minimum batch * heads at which bmm beats SDPA for those in decoding."""
MIN_FLEX_QUERIES = 256
"""Fewer queries than this are faster with a dense mask than with a block mask."""


class AttentionMasks(Protocol):
    """The mask of an attention call in the forms that implementations take; each form is made on demand."""

    @property
    def is_causal(self) -> bool:
        """True if is_causal=True is exactly equivalent to the mask."""

    @property
    def has_visible_key(self) -> Tensor | None:
        """[B or 1, 1, Q, 1], true where a query may attend to at least one key; None if all are known to."""

    @property
    def fully_masked_queries(self) -> Tensor | None:
        """[B or 1, 1, Q, 1], true for queries whose output has to be zeroed; None if there are none."""

    def kernel_mask(self, dtype: torch.dtype) -> Tensor | None:
        """[B or 1, 1, Q, K], boolean or additive; None if every query may attend to every key."""

    def mask_by_head(self, q_BHQE: Tensor) -> Tensor | None:
        """[1 or B * H, Q, K], additive; None if every query may attend to every key."""

    def biased_mask(self, bias: Tensor) -> Tensor:
        """A bias [B or 1, H or 1, Q, K] with -inf where a key is masked."""

    def block_mask(self) -> BlockMask | None:
        """The mask as blocks for FlexAttention; None if it cannot be one, or masks nothing."""


def attention(
    q_BHQE: Tensor,
    k_BGKE: Tensor,
    v_BGKF: Tensor,
    masks: AttentionMasks,
    scale: float,
    bias: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Computes scaled dot-product attention by the fastest implementation for this call: [B, H, Q, F].

    bias: [B or 1, H or 1, Q, K], added to scaled dot products. Fully masked queries get zeros.
    """
    grouped = bool(k_BGKE.shape[1] != q_BHQE.shape[1])  # symbolic while sizes are traced
    if (
        bias is None
        and dropout == 0.0
        and should_use_bmm(q_BHQE, k_BGKE)
        and (masks.is_causal or masks.has_visible_key is None)
    ):
        return bmm_attention(q_BHQE, k_BGKE, v_BGKF, scale, masks.mask_by_head(q_BHQE))
    if bias is None and masks.is_causal:
        return F.scaled_dot_product_attention(
            q_BHQE, k_BGKE, v_BGKF, is_causal=True, scale=scale, dropout_p=dropout, enable_gqa=grouped
        )
    if bias is None and dropout == 0.0 and should_use_flex(q_BHQE, v_BGKF):
        blocks = masks.block_mask()
        if blocks is not None:
            from kit.kernels.flex_attention import block_sparse_attention

            return _zero_masked(block_sparse_attention(q_BHQE, k_BGKE, v_BGKF, blocks, scale), masks)
    mask = masks.kernel_mask(q_BHQE.dtype) if bias is None else masks.biased_mask(bias)
    if dropout == 0.0 and decode.LIBRARY.loaded and decode.supports_attention(q_BHQE, k_BGKE, v_BGKF):
        return decode.decode_attention(q_BHQE, k_BGKE, v_BGKF, mask, scale)
    if dropout == 0.0 and prefers_bmm(q_BHQE, k_BGKE) and masks.has_visible_key is None:
        return bmm_decode_attention(q_BHQE, k_BGKE, v_BGKF, scale, mask)
    out = F.scaled_dot_product_attention(
        q_BHQE, k_BGKE, v_BGKF, attn_mask=mask, scale=scale, dropout_p=dropout, enable_gqa=grouped
    )
    return _zero_masked(out, masks)


def supports_varlen(x: Tensor, head_dim: int) -> bool:
    """Whether `varlen_self_attention` and `varlen_cross_attention` serve tensors like x [N, D]."""
    library = varlen_attention.LIBRARY
    return library.loaded and varlen_attention.supports(x) and head_dim % varlen_attention.HEAD_DIM_MULTIPLE == 0


def varlen_self_attention(
    qkv_ND: Tensor, cu_seqlens: tuple[Tensor, Tensor], heads: int, kv_heads: int, scale: float, causal: bool
) -> Tensor:
    """Attends within packed sequences; queries, keys and values side by side in one tensor [N, (H + 2 * G) * E]."""
    config = varlen_attention.HeadConfig(heads, kv_heads, scale, causal)
    return varlen_attention.varlen_attention(qkv_ND, None, cu_seqlens, config)


def varlen_cross_attention(
    q_ND: Tensor,
    kv_MD: Tensor,
    cu_seqlens: tuple[Tensor, Tensor],
    heads: int,
    kv_heads: int,
    scale: float,
    causal: bool,
) -> Tensor:
    """Attends from packed sequences of queries to those of keys; keys and values side by side [M, 2 * G * E]."""
    config = varlen_attention.HeadConfig(heads, kv_heads, scale, causal)
    return varlen_attention.varlen_attention(q_ND, kv_MD, cu_seqlens, config)


def should_use_flex(q_BHQE: Tensor, v_BGKF: Tensor) -> bool:
    """Whether a mask is better lowered to blocks: on CUDA, for long sequences and supported sizes."""
    if not q_BHQE.is_cuda or q_BHQE.shape[2] < MIN_FLEX_QUERIES:
        return False
    return all(width >= 16 and width & (width - 1) == 0 for width in {q_BHQE.shape[-1], v_BGKF.shape[-1]})


def create_block_mask(
    allows: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor],
    rows: int,
    queries: int,
    keys: int,
    device: torch.device,
) -> BlockMask:
    """Computes the blocks of (query, key) pairs that hold an allowed one; no dense mask is materialized.

    allows: takes the indices of a row, a head, a query and a key, and returns whether the query may attend to the key.
    """
    from torch.nn.attention import flex_attention

    return flex_attention.create_block_mask(allows, rows, None, queries, keys, device=device)


def fuses_dropout(q_BHQE: Tensor) -> bool:
    """Whether dropout of attention weights is part of a fused implementation: on a CPU it is not."""
    return q_BHQE.device.type != "cpu"


def is_known_true(mask: Tensor) -> bool:
    """Whether every element is true; false also where a device would have to be waited for to know.

    A compiled or exported graph must hold for every mask, so values are not read while tracing.
    """
    return mask.device.type == "cpu" and not torch.compiler.is_compiling() and bool(mask.all())


def zeroes_masked_queries(device: torch.device) -> bool:
    """Whether implementations of this device give zeros to fully masked queries, where others may give NaN."""
    return device.type == "cpu" and not torch.compiler.is_exporting()


def additive_mask(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Boolean mask converted once to an additive float mask; the CPU kernel would redo it per layer.

    Returned unchanged on other devices.
    """
    if mask.device.type != "cpu":
        return mask
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, float("-inf"))


def repeat_kv(x_BGKE: Tensor, like_BHQE: Tensor) -> Tensor:
    """Repeats each key-value head for the query heads that share it: [B, H, K, E]."""
    heads, kv_heads = like_BHQE.shape[1], x_BGKE.shape[1]
    return x_BGKE if heads == kv_heads else torch.repeat_interleave(x_BGKE, heads // kv_heads, 1)


def should_use_bmm(q_BHQE: Tensor, k_BGKE: Tensor) -> bool:
    """Whether training on these is faster by `bmm_attention` than by SDPA, whose blocks are made for long sequences."""
    if q_BHQE.device.type != "cpu" or not torch.is_grad_enabled() or torch.compiler.is_compiling():
        return False
    if q_BHQE.dtype not in (torch.float32, torch.float64) or torch.is_autocast_enabled("cpu"):
        return False
    rows, heads, queries, _ = q_BHQE.shape
    enough = heads == k_BGKE.shape[1] and rows * heads >= MIN_BATCH_HEADS
    return enough and max(queries, k_BGKE.shape[2]) <= MAX_SEQ_LEN


def bmm_attention(q_BHQE: Tensor, k_BHKE: Tensor, v_BHKF: Tensor, scale: float, mask: Tensor | None) -> Tensor:
    """Attention of short sequences in training, as batched matrix products: [B, H, Q, F].

    mask: [1 or B * H, Q, K], added to scores.
    """
    rows, heads = q_BHQE.shape[:2]
    out_RQF: Tensor = _BmmAttention.apply(  # type: ignore[no-untyped-call]
        q_BHQE.flatten(0, 1), k_BHKE.flatten(0, 1), v_BHKF.flatten(0, 1), scale, mask
    )
    return out_RQF.view(rows, heads, *out_RQF.shape[1:])


class _BmmAttention(torch.autograd.Function):
    """Saves the attention weights [R, Q, K] for backward.

    The right-hand GEMM operand is kept contiguous: a transposed operand is up to 3x slower on a CPU.
    """

    @staticmethod
    def forward(ctx: Any, q_RQE: Tensor, k_RKE: Tensor, v_RKF: Tensor, scale: float, mask: Tensor | None) -> Tensor:
        k_REK = k_RKE.transpose(1, 2).contiguous()
        if mask is None:
            scores_RQK = torch.bmm(q_RQE, k_REK).mul_(scale)
        else:
            scores_RQK = torch.baddbmm(mask, q_RQE, k_REK, alpha=scale)
        weights_RQK = scores_RQK.softmax(-1)
        ctx.save_for_backward(q_RQE, k_RKE, v_RKF, weights_RQK)
        ctx.scale = scale
        return torch.bmm(weights_RQK, v_RKF)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        q_RQE, k_RKE, v_RKF, weights_RQK = ctx.saved_tensors
        (d_out_RQF,) = gradients
        # Gradients of queries, keys and values share a buffer: gathering them copies nothing.
        pieces = [q_RQE, k_RKE, v_RKF]
        d_pieces = d_out_RQF.new_empty(sum(piece.numel() for piece in pieces)).split([p.numel() for p in pieces])
        d_q_RQE, d_k_RKE, d_v_RKF = (d.view(piece.shape) for d, piece in zip(d_pieces, pieces, strict=True))
        torch.bmm(weights_RQK.transpose(1, 2), d_out_RQF, out=d_v_RKF)
        d_weights_RQK = torch.bmm(d_out_RQF, v_RKF.transpose(1, 2).contiguous())
        d_scores_RQK = torch._softmax_backward_data(d_weights_RQK, weights_RQK, -1, weights_RQK.dtype).mul_(ctx.scale)
        torch.bmm(d_scores_RQK, k_RKE, out=d_q_RQE)
        torch.bmm(d_scores_RQK.transpose(1, 2), q_RQE, out=d_k_RKE)
        return d_q_RQE, d_k_RKE, d_v_RKF, None, None


def should_store_keys_transposed(k_BGKE: Tensor) -> bool:
    """Whether to store K transposed, as [B, G, E, K]: faster for several queries per row on a CPU.

    The product of several queries with few keys is up to five times as fast then; not for one query, nor for few rows.
    """
    # In half precision SDPA accumulates in float32, and weights times values by bmm does not.
    exact = k_BGKE.dtype in (torch.float32, torch.float64)
    return exact and k_BGKE.device.type == "cpu" and k_BGKE.shape[0] * k_BGKE.shape[1] >= MIN_TRANSPOSED_BATCH_HEADS


def is_key_transposed(k_BGKE: Tensor) -> bool:
    """Whether keys are stored as [B, G, E, K], on a CPU."""
    return k_BGKE.device.type == "cpu" and k_BGKE.stride(2) == 1 and k_BGKE.stride(3) > 1


def transpose_keys(k_BGKE: Tensor) -> Tensor:
    """Copies keys to [B, G, E, K] storage; the shape stays [B, G, K, E]."""
    return k_BGKE.transpose(2, 3).contiguous().transpose(2, 3)


def index_select_keys(k_BGKE: Tensor, rows: Tensor) -> Tensor:
    """Selects rows of keys, which stay stored as before."""
    if is_key_transposed(k_BGKE):
        return k_BGKE.transpose(2, 3).index_select(0, rows).transpose(2, 3)
    return k_BGKE.index_select(0, rows)


def prefers_bmm(q_BHQE: Tensor, k_BGKE: Tensor) -> bool:
    """Whether decoding attention is faster by bmm than by SDPA, whose blocks are made for many queries.

    One query of 25 keys with batch * heads = 256 takes 0.11 ms instead of 0.17 a core, of 80 keys 0.27 instead of 1.4.
    """
    # The storage of keys comes first: an exported graph must not specialize on the number of queries.
    if is_key_transposed(k_BGKE):
        return q_BHQE.shape[2] <= MAX_TRANSPOSED_QUERIES
    if torch.compiler.is_exporting() or torch.is_grad_enabled() or k_BGKE.device.type != "cpu":
        return False
    rows, heads, queries, _ = q_BHQE.shape
    exact = q_BHQE.dtype in (torch.float32, torch.float64)
    return exact and queries <= MAX_BMM_QUERIES and rows * heads >= MIN_BMM_BATCH_HEADS


def bmm_decode_attention(q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, scale: float, mask: Tensor | None) -> Tensor:
    """Attention of a few queries by two batched matrix products: [B, H, Q, F]; mask: added to scores."""
    rows, heads, queries, width = q_BHQE.shape
    # Fold the query heads of a key-value head into its query axis.
    q_RNE = q_BHQE.reshape(rows * k_BGKE.shape[1], -1, width)
    scores_BHQK = torch.bmm(q_RNE, k_BGKE.transpose(2, 3).flatten(0, 1)).view(rows, heads, queries, -1)
    scores_BHQK = scores_BHQK.mul_(scale) if mask is None else torch.add(mask, scores_BHQK, alpha=scale)
    weights_RNK = scores_BHQK.softmax(-1).view(*q_RNE.shape[:2], -1)
    return torch.bmm(weights_RNK, v_BGKF.flatten(0, 1)).view(rows, heads, queries, -1)


def _zero_masked(out_BHQF: Tensor, masks: AttentionMasks) -> Tensor:
    """Zeroes fully masked query rows, on back ends that return NaN for them."""
    masked = masks.fully_masked_queries
    return out_BHQF if masked is None else out_BHQF.masked_fill(masked, 0.0)
