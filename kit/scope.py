"""What each query of a stack may see and where it sits, for one pass; lowered lazily to what an attention can use.

Built once a stack and forward pass and shared by its layers, so that a dense mask or a bias is made at most once.
Shapes: B rows, H heads, G groups of keys, Q queries, K keys, E width of a key, F width of a value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from kit.contracts.mask import Facts, Mask
from kit.dropout import drop
from kit.errors import KitError
from kit.few_queries import attend_in_products, better_in_products
from kit.groups import repeat_groups
from kit.layout import Layout
from kit.lazy import lazy
from kit.native.few import attends, few_queries
from kit.short import attend_short, pays

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

    from kit.contracts.position import Position
    from kit.watching import Watcher


class Scope:
    """Positions of queries and keys, the composed mask, the position part, and who is watching."""

    def __init__(
        self,
        queries: Layout,
        keys: Layout,
        mask: Mask | None = None,
        position: Position | None = None,
        watcher: Watcher | None = None,
    ) -> None:
        self.queries = queries
        self.keys = keys
        self.mask = mask
        self.watcher = watcher
        self.position = position
        places = frozenset() if position is None else position.places()
        self.rotates = "rotate" in places
        self.biased = bool(places & {"bias", "interact"})
        self.interacts = "interact" in places
        self.narrowed: dict[tuple[int, ...], Scope] = {}
        """The same for attentions that have lost heads, by those that are left."""
        self._blocks: BlockMask | None = None
        self._additive: dict[torch.dtype, Tensor] = {}
        self._by_head: dict[tuple[torch.dtype, int], Tensor | None] = {}

    @lazy
    def is_causal(self) -> bool:
        """Whether «no key later than the query» is the whole truth for every real query.

        Padding after the real tokens changes nothing then: a real query never sees that far.
        """
        causal = self.mask is not None and self.mask.shape == "causal" and self.keys.reach is None
        return causal and self.queries.length == self.keys.length and self.keys.right_padded

    @lazy
    def sees_all(self) -> bool:
        """Whether every query may see every key."""
        if self.keys.valid is not None or self.keys.reach is not None:
            return False
        if self.mask is None:
            return True
        # The newest token of a text may see everything before it.
        return self.mask.shape == "causal" and self.queries.length == 1 and self.queries.valid is None

    @lazy
    def texts(self) -> tuple[Tensor, Tensor] | None:
        """Which token each text begins with, of queries and keys; None where texts cannot be taken as they lie."""
        seen = (self.mask is None or self.is_causal) and self.keys.reach is None
        return self.queries.texts(self.keys) if seen and not (self.rotates or self.biased) else None

    @lazy
    def allowed(self) -> Tensor | None:
        """[B or 1, 1, Q, K], true where the key may be seen; None where every key may."""
        if self.sees_all:
            return None
        allowed: Tensor | None = None
        if self.mask is not None:
            q, k = self.queries.order[:, :, None], self.keys.order[:, None, :]
            allowed = self.mask.allows(q, k, self._facts(self.mask))[:, None]
        if self.keys.valid is not None:
            real = self.keys.valid[:, None, None, :]
            allowed = real if allowed is None else allowed & real
        if self.keys.reach is not None:
            reach = self.keys.reach[:, None]
            allowed = reach if allowed is None else allowed & reach
        assert allowed is not None
        return allowed.expand(-1, -1, self.queries.length, self.keys.length)

    @lazy
    def seeing(self) -> Tensor | None:
        """[B or 1, 1, Q, 1], true where a query sees at least one key; None where all do."""
        if self.allowed is None:
            return None
        seeing = self.allowed.any(-1, keepdim=True)
        # A graph that is compiled or exported must hold for every mask, so it does not look at this one.
        if seeing.device.type == "cpu" and not torch.compiler.is_compiling() and bool(seeing.all()):
            return None
        return seeing

    def rotate_queries(self, q_BHQE: Tensor) -> Tensor:
        """Queries with their positions turned in, where the position part does that."""
        if not self.rotates or self.position is None:
            return q_BHQE
        return self.position.rotate(q_BHQE, self.queries.at, "query")

    def rotate_keys(self, k_BGKE: Tensor) -> Tensor:
        """The newest keys with their positions turned in."""
        if not self.rotates or self.position is None:
            return k_BGKE
        # The newest keys are made of the queries' own tokens; the same tensor lets a position keep what it made of it.
        newest = k_BGKE.shape[2]
        at = self.queries.at if newest == self.queries.length else self.keys.at[:, -newest:]
        return self.position.rotate(k_BGKE, at, "key")

    def bias(self, q_BHQE: Tensor, k_BHKE: Tensor) -> Tensor | None:
        """[B or 1, H or 1, Q, K]: what the position part adds to scores; None where it adds nothing."""
        if not self.biased or self.position is None:
            return None
        added = self._static_bias
        if added is not None:
            added = added.to(q_BHQE.dtype)
        if self.interacts:
            content = self.position.interact(q_BHQE, repeat_groups(k_BHKE, q_BHQE), self)
            added = content if added is None else added if content is None else added + content
        return added

    def weigh(self, scores_BHQK: Tensor) -> Tensor:
        """Softmax over the keys that may be seen; a query that sees none gives zero to all, with finite gradients."""
        if self.allowed is None:
            return scores_BHQK.softmax(-1)
        if self.seeing is None:
            return scores_BHQK.masked_fill(~self.allowed, float("-inf")).softmax(-1)
        open_rows = self.allowed | ~self.seeing
        return scores_BHQK.masked_fill(~open_rows, float("-inf")).softmax(-1) * self.seeing

    def attend(self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, scale: float, dropout: float = 0.0) -> Tensor:
        """Scaled dot-product attention by the fastest kernel for this mask and bias: [B, H, Q, F]."""
        grouped = bool(k_BGKE.shape[1] != q_BHQE.shape[1])  # of sizes that are traced, a stand-in
        bias = self.bias(q_BHQE, k_BGKE)
        if bias is None and dropout == 0.0 and pays(q_BHQE, k_BGKE) and (self.is_causal or self.seeing is None):
            return attend_short(q_BHQE, k_BGKE, v_BGKF, scale, self._mask_by_head(q_BHQE))
        if bias is None and self.is_causal:
            return F.scaled_dot_product_attention(
                q_BHQE, k_BGKE, v_BGKF, is_causal=True, scale=scale, dropout_p=dropout, enable_gqa=grouped
            )
        if bias is None and dropout == 0.0 and q_BHQE.is_cuda and self._in_blocks(q_BHQE, v_BGKF):
            return self._attend_in_blocks(q_BHQE, k_BGKE, v_BGKF, scale)
        mask = self._additive_mask(q_BHQE.dtype) if bias is None else self._masked(bias)
        if dropout == 0.0 and attends(q_BHQE, k_BGKE, v_BGKF):
            return few_queries(q_BHQE, k_BGKE, v_BGKF, mask, scale)
        if dropout == 0.0 and better_in_products(q_BHQE, k_BGKE) and self.seeing is None:
            return attend_in_products(q_BHQE, k_BGKE, v_BGKF, scale, mask)
        out = F.scaled_dot_product_attention(
            q_BHQE, k_BGKE, v_BGKF, attn_mask=mask, scale=scale, dropout_p=dropout, enable_gqa=grouped
        )
        return out if self._blind is None else out.masked_fill(self._blind, 0.0)

    def attend_plainly(
        self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, scale: float, dropout: float = 0.0
    ) -> tuple[Tensor, Tensor]:
        """The same in steps that can be watched: what heads give [B, H, Q, F], and their weights [B, H, Q, K]."""
        weights = self.weigh(self.scores(q_BHQE, k_BGKE, scale))
        return drop(weights, dropout, training=dropout > 0) @ repeat_groups(v_BGKF, q_BHQE), weights

    def scores(self, q_BHQE: Tensor, k_BGKE: Tensor, scale: float) -> Tensor:
        """Scaled dot products with the position's bias, before any mask: [B, H, Q, K]."""
        scores = (q_BHQE * scale) @ repeat_groups(k_BGKE, q_BHQE).transpose(-1, -2)
        bias = self.bias(q_BHQE, k_BGKE)
        return scores if bias is None else scores + bias

    def _in_blocks(self, q_BHQE: Tensor, v_BGKF: Tensor) -> bool:
        from kit.blocks import worthwhile

        return self.keys.reach is None and worthwhile(self, q_BHQE, v_BGKF)

    def _attend_in_blocks(self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, scale: float) -> Tensor:
        from kit.blocks import attend_in_blocks, block_mask

        if self._blocks is None:
            self._blocks = block_mask(self)
        out = attend_in_blocks(q_BHQE, k_BGKE, v_BGKF, self._blocks, scale)
        return out if self._blind is None else out.masked_fill(self._blind, 0.0)

    @lazy
    def _static_bias(self) -> Tensor | None:
        return None if self.position is None else self.position.bias(self.queries.at, self.keys.at)

    @lazy
    def _blind(self) -> Tensor | None:
        """Queries that see nothing, where the kernel cannot be trusted with them (the CPU kernel gives them zero)."""
        trusted = self.queries.device.type == "cpu" and not torch.compiler.is_exporting()
        return None if trusted or self.seeing is None else ~self.seeing

    @lazy
    def _kernel_mask(self) -> Tensor | None:
        return self.allowed if self._blind is None or self.allowed is None else self.allowed | self._blind

    def _additive_mask(self, dtype: torch.dtype) -> Tensor | None:
        """As the CPU kernel would turn it into for every layer."""
        mask = self._kernel_mask
        if mask is None or mask.device.type != "cpu":
            return mask
        if dtype not in self._additive:
            zeros = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
            self._additive[dtype] = zeros.masked_fill_(~mask, float("-inf"))
        return self._additive[dtype]

    def _mask_by_head(self, q_BHQE: Tensor) -> Tensor | None:
        """[1 or B * H, Q, K]: what is added to scores; None where every key may be seen."""
        rows, heads, queries, _ = q_BHQE.shape
        key = (q_BHQE.dtype, heads)
        if key not in self._by_head:
            if self.is_causal:
                hidden = torch.full((queries, queries), float("-inf"), dtype=q_BHQE.dtype, device=q_BHQE.device)
                self._by_head[key] = hidden.triu_(1)[None]
            else:
                mask = self._additive_mask(q_BHQE.dtype)
                if mask is not None:
                    mask = mask[0] if mask.shape[0] == 1 else mask.expand(rows, heads, -1, -1).flatten(0, 1)
                self._by_head[key] = mask
        return self._by_head[key]

    def _masked(self, bias: Tensor) -> Tensor:
        mask = self._kernel_mask
        return bias if mask is None else bias.masked_fill(~mask, float("-inf"))

    def _facts(self, mask: Mask) -> Facts:
        missing = [name for name in mask.needs if name not in self.queries.facts or name not in self.keys.facts]
        if missing:
            raise KitError(
                f"the mask {type(mask).__name__} needs the fact {missing[0]!r} of every token, and the batch brings "
                f"{sorted(self.queries.facts) or 'none'}; give it in Tokens(facts={{{missing[0]!r}: ...}})"
            )
        return Facts(
            {name: fact[:, :, None] for name, fact in self.queries.facts.items()},
            {name: fact[:, None, :] for name, fact in self.keys.facts.items()},
        )
