"""Attention context of one forward pass: mask, positions and bias, lowered lazily to what an attention kernel takes.

Built once a stack and forward pass and shared by its layers, so that a dense mask or a bias is made at most once.

Shapes: B rows, H heads, G key-value heads, Q queries, K keys, E head_dim of queries and keys, F head_dim of values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from kit.errors import KitError
from kit.kernels.attention import (
    additive_mask,
    attention,
    create_block_mask,
    is_known_true,
    repeat_kv,
    zeroes_masked_queries,
)
from kit.kernels.dropout import drop
from kit.sequence.batch_layout import BatchLayout, cached_property

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

    from kit.contracts.mask import Mask
    from kit.contracts.position import Position
    from kit.sequence.observer import AttentionObserver


@dataclass(frozen=True)
class MaskFeatures:
    """Features of tokens that masks read, such as document ids; [B, Q, 1] for queries and [B, 1, K] for keys."""

    query: Mapping[str, Tensor] = field(default_factory=dict)
    key: Mapping[str, Tensor] = field(default_factory=dict)


class AttentionContext:
    """The layouts of queries and keys, the composed mask, the position part, and the observer of one pass."""

    def __init__(
        self,
        queries: BatchLayout,
        keys: BatchLayout,
        mask: Mask | None = None,
        position: Position | None = None,
        observer: AttentionObserver | None = None,
    ) -> None:
        self.queries = queries
        self.keys = keys
        self.mask = mask
        self.observer = observer
        self.position = position
        locations = frozenset() if position is None else position.locations
        self.rotates = "rotate" in locations
        self.biased = bool(locations & {"bias", "content_bias"})
        self.has_content_bias = "content_bias" in locations
        self.pruned: dict[tuple[int, ...], AttentionContext] = {}
        """The same context for pruned attentions, by the heads that remain."""
        self._block_mask: BlockMask | None = None
        self._additive: dict[torch.dtype, Tensor] = {}
        self._mask_by_head: dict[tuple[torch.dtype, int], Tensor | None] = {}

    @cached_property
    def is_causal(self) -> bool:
        """True if is_causal=True is exactly equivalent to the mask for all real queries.

        Padding after the real tokens changes nothing then: no real query attends that far.
        """
        causal = self.mask is not None and self.mask.shape == "causal" and self.keys.ancestor_mask is None
        return causal and self.queries.length == self.keys.length and self.keys.right_padded

    @cached_property
    def is_unmasked(self) -> bool:
        """True if every query may attend to every key."""
        if self.keys.padding_mask is not None or self.keys.ancestor_mask is not None:
            return False
        if self.mask is None:
            return True
        # The newest token of a sequence may attend to everything before it.
        return self.mask.shape == "causal" and self.queries.length == 1 and self.queries.padding_mask is None

    @cached_property
    def cu_seqlens(self) -> tuple[Tensor, Tensor] | None:
        """(cu_seqlens of queries, cu_seqlens of keys), [B + 1] each; None if varlen attention does not apply."""
        lowered = (self.mask is None or self.is_causal) and self.keys.ancestor_mask is None
        return self.queries.cu_seqlens_with(self.keys) if lowered and not (self.rotates or self.biased) else None

    @cached_property
    def attention_mask(self) -> Tensor | None:
        """[B or 1, 1, Q, K], true where a query may attend to a key; None if every query may attend to every key."""
        if self.is_unmasked:
            return None
        allowed: Tensor | None = None
        if self.mask is not None:
            q, k = self.queries.token_index[:, :, None], self.keys.token_index[:, None, :]
            allowed = self.mask.allows(q, k, self._features(self.mask))[:, None]
        if self.keys.padding_mask is not None:
            real = self.keys.padding_mask[:, None, None, :]
            allowed = real if allowed is None else allowed & real
        if self.keys.ancestor_mask is not None:
            ancestor = self.keys.ancestor_mask[:, None]
            allowed = ancestor if allowed is None else allowed & ancestor
        assert allowed is not None
        return allowed.expand(-1, -1, self.queries.length, self.keys.length)

    @cached_property
    def has_visible_key(self) -> Tensor | None:
        """[B or 1, 1, Q, 1], true where a query may attend to at least one key; None if all are known to."""
        if self.attention_mask is None:
            return None
        visible = self.attention_mask.any(-1, keepdim=True)
        return None if is_known_true(visible) else visible

    def rotate_queries(self, q_BHQE: Tensor) -> Tensor:
        """Rotates queries by their positions, if the position part does that."""
        if not self.rotates or self.position is None:
            return q_BHQE
        return self.position.rotate(q_BHQE, self.queries.positions, "query")

    def rotate_keys(self, k_BGKE: Tensor) -> Tensor:
        """Rotates the newest keys by their positions, if the position part does that."""
        if not self.rotates or self.position is None:
            return k_BGKE
        # The newest keys belong to the queries' tokens; the same tensor lets a position part reuse its angles.
        newest = k_BGKE.shape[2]
        at = self.queries.positions if newest == self.queries.length else self.keys.positions[:, -newest:]
        return self.position.rotate(k_BGKE, at, "key")

    def bias(self, q_BHQE: Tensor, k_BHKE: Tensor) -> Tensor | None:
        """Attention bias of the position part [B or 1, H or 1, Q, K], added to scores; None if there is none."""
        if not self.biased or self.position is None:
            return None
        added = self._static_bias
        if added is not None:
            added = added.to(q_BHQE.dtype)
        if self.has_content_bias:
            content = self.position.content_bias(q_BHQE, repeat_kv(k_BHKE, q_BHQE), self)
            added = content if added is None else added if content is None else added + content
        return added

    def masked_softmax(self, scores_BHQK: Tensor) -> Tensor:
        """Softmax over unmasked keys [B, H, Q, K]; a fully masked query gets zeros, with finite gradients."""
        if self.attention_mask is None:
            return scores_BHQK.softmax(-1)
        if self.has_visible_key is None:
            return scores_BHQK.masked_fill(~self.attention_mask, float("-inf")).softmax(-1)
        open_rows = self.attention_mask | ~self.has_visible_key
        return scores_BHQK.masked_fill(~open_rows, float("-inf")).softmax(-1) * self.has_visible_key

    def attend(self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, scale: float, dropout: float = 0.0) -> Tensor:
        """Scaled dot-product attention by the fastest kernel for this mask and bias: [B, H, Q, F]."""
        return attention(q_BHQE, k_BGKE, v_BGKF, self, scale, self.bias(q_BHQE, k_BGKE), dropout)

    def attend_eager(
        self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, scale: float, dropout: float = 0.0
    ) -> tuple[Tensor, Tensor]:
        """Unfused attention: the outputs of heads [B, H, Q, F], and their weights [B, H, Q, K]."""
        weights = self.masked_softmax(self.scores(q_BHQE, k_BGKE, scale))
        return drop(weights, dropout, training=dropout > 0) @ repeat_kv(v_BGKF, q_BHQE), weights

    def scores(self, q_BHQE: Tensor, k_BGKE: Tensor, scale: float) -> Tensor:
        """Scaled dot products plus the position part's bias, before any mask: [B, H, Q, K]."""
        scores = (q_BHQE * scale) @ repeat_kv(k_BGKE, q_BHQE).transpose(-1, -2)
        bias = self.bias(q_BHQE, k_BGKE)
        return scores if bias is None else scores + bias

    @cached_property
    def fully_masked_queries(self) -> Tensor | None:
        """[B or 1, 1, Q, 1]: fully masked query rows, on back ends that return NaN for them; None elsewhere."""
        trusted = zeroes_masked_queries(self.queries.device)
        return None if trusted or self.has_visible_key is None else ~self.has_visible_key

    def kernel_mask(self, dtype: torch.dtype) -> Tensor | None:
        """[B or 1, 1, Q, K]: the mask in the form that the device's kernels take, converted once for all layers."""
        mask = self._open_mask
        if mask is not None and dtype not in self._additive:
            self._additive[dtype] = additive_mask(mask, dtype)
        return None if mask is None else self._additive[dtype]

    def mask_by_head(self, q_BHQE: Tensor) -> Tensor | None:
        """[1 or B * H, Q, K]: the additive mask of each head; None if every query may attend to every key."""
        rows, heads, queries, _ = q_BHQE.shape
        key = (q_BHQE.dtype, heads)
        if key not in self._mask_by_head:
            if self.is_causal:
                future = torch.full((queries, queries), float("-inf"), dtype=q_BHQE.dtype, device=q_BHQE.device)
                self._mask_by_head[key] = future.triu_(1)[None]
            else:
                mask = self.kernel_mask(q_BHQE.dtype)
                if mask is not None:
                    mask = mask[0] if mask.shape[0] == 1 else mask.expand(rows, heads, -1, -1).flatten(0, 1)
                self._mask_by_head[key] = mask
        return self._mask_by_head[key]

    def biased_mask(self, bias: Tensor) -> Tensor:
        """A bias [B or 1, H or 1, Q, K] with -inf where a key is masked."""
        mask = self._open_mask
        return bias if mask is None else bias.masked_fill(~mask, float("-inf"))

    def block_mask(self) -> BlockMask | None:
        """The mask part as blocks for FlexAttention; None without one, or with an ancestor mask."""
        mask, queries, keys = self.mask, self.queries, self.keys
        if mask is None or keys.ancestor_mask is not None:
            return None
        if self._block_mask is None:
            q_index = queries.token_index.expand(queries.rows, -1)
            k_index = keys.token_index.expand(keys.rows, -1)

            def allows(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
                features = MaskFeatures(
                    {name: feature[b, q] for name, feature in queries.features.items()},
                    {name: feature[b, k] for name, feature in keys.features.items()},
                )
                allowed = mask.allows(q_index[b, q], k_index[b, k], features)
                return allowed if keys.padding_mask is None else allowed & keys.padding_mask[b, k]

            self._block_mask = create_block_mask(allows, queries.rows, queries.length, keys.length, queries.device)
        return self._block_mask

    @cached_property
    def _static_bias(self) -> Tensor | None:
        return None if self.position is None else self.position.bias(self.queries.positions, self.keys.positions)

    @cached_property
    def _open_mask(self) -> Tensor | None:
        """The attention mask, with all keys visible to queries whose output is zeroed afterwards."""
        if self.fully_masked_queries is None or self.attention_mask is None:
            return self.attention_mask
        return self.attention_mask | self.fully_masked_queries

    def _features(self, mask: Mask) -> MaskFeatures:
        missing = [name for name in mask.needs if name not in self.queries.features or name not in self.keys.features]
        if missing:
            raise KitError(
                f"the mask {type(mask).__name__} needs the feature {missing[0]!r} of every token, and the batch brings "
                f"{sorted(self.queries.features) or 'none'}; give it in TokenBatch(features={{{missing[0]!r}: ...}})"
            )
        return MaskFeatures(
            {name: feature[:, :, None] for name, feature in self.queries.features.items()},
            {name: feature[:, None, :] for name, feature in self.keys.features.items()},
        )
