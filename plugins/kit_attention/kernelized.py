"""Kernelized linear attention, weights phi(q) · phi(k): Transformers are RNNs (Katharopoulos et al. 2020), section 3.

Sums over keys replace the weight matrix: cost is linear in the length and the cache is of constant size.
Shapes: B batch, H query heads, G key-value heads, Q queries, K keys, L tokens, N chunks, C tokens per chunk, E head
dimension, M features, S tokens per segment, F value dimension; V = F + 1, values with a one appended for the divisor.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from kit import (
    AttentionContext,
    BuildContext,
    Cache,
    Capabilities,
    Dims,
    MultiHeadAttention,
    Problem,
    RecurrentCache,
    repeat_kv,
    without_autocast,
)
from kit_attention.subquadratic import at_least_float32, is_causal, refuse_dropout

_CHUNK = 64
"""Tokens per chunk: pairs within it are computed one by one, earlier tokens come as a running sum."""
_SEGMENT = 1024
"""Tokens per segment, whose features are computed at a time."""


class KernelizedAttention(MultiHeadAttention):
    """Linear attention; a variant overrides `features`."""

    # Rotated features could give negative weights, so only positions that are added to embeddings are supported.
    capabilities = Capabilities(masks=frozenset({"causal"}), positions=frozenset(), cost="linear")

    @classmethod
    def check(cls, options: Any, dims: Dims, build_context: BuildContext) -> Iterator[Problem]:
        """Dropout of weights is refused: the weights are never computed."""
        yield from super().check(options, dims, build_context)
        yield from refuse_dropout(options, build_context, cls.name())

    @abstractmethod
    def features(self, x_BHLE: Tensor, side: Literal["query", "key"]) -> Tensor:
        """The non-negative features of queries or keys, token by token: [B, H, L, M]."""

    def start(self) -> Cache:
        """The running sum of phi(k) v over the keys so far, or over the memory."""
        return RecurrentCache()

    def forward(
        self, x: Tensor, memory: Tensor | None, context: AttentionContext, state: Cache | None = None
    ) -> Tensor:
        """Project, attend by running sums while decoding, project the output: like x."""
        across = self.dims.memory is not None
        if not isinstance(state, RecurrentCache) or (across and context.observer is not None):
            return super().forward(x, memory, context, None)
        if across and state.values:
            (q_BHQE,) = context.queries.to_heads(self.query(x), self.heads)
            out_BHQF = self._divide(self._features(q_BHQE, "query") @ state.values["sum"], x.dtype)
        else:
            q, k, v = self.project(x, memory, context, None)
            padding_mask = context.keys.padding_mask if across else context.queries.padding_mask
            out_BHQF, total_BHMV = self._run(q, k, v, padding_mask, None if across else state, not across)
            state.values = {"sum": total_BHMV}
        if context.observer is not None:
            context.observer.without_weights(
                self.build_context, "step by step it remembers a sum over keys, and no key by itself"
            )
            out_BHQF = context.observer.heads(self.build_context, out_BHQF)
        return self.project_output(context.queries.from_heads(out_BHQF), x)

    def attention_weights(self, q_BHQE: Tensor, k_BGKE: Tensor, context: AttentionContext) -> Tensor:
        """The weights that the sums are equivalent to: [B, H, Q, K]."""
        is_causal(context, self.name())
        k_BHKM = repeat_kv(self._features(k_BGKE, "key"), q_BHQE)
        products_BHQK = self._features(q_BHQE, "query") @ k_BHKM.transpose(-1, -2)
        if context.attention_mask is not None:
            products_BHQK = products_BHQK * context.attention_mask
        total_BHQ1 = products_BHQK.sum(-1, keepdim=True)
        return (products_BHQK / _safe(total_BHQ1)).to(q_BHQE.dtype)

    def attend(self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, context: AttentionContext) -> Tensor:
        """Linear attention by sums, in chunks where it is causal: [B, H, Q, F]."""
        return self._run(q_BHQE, k_BGKE, v_BGKF, context.keys.padding_mask, None, is_causal(context, self.name()))[0]

    def _run(
        self,
        q_BHQE: Tensor,
        k_BGKE: Tensor,
        v_BGKF: Tensor,
        valid_BK: Tensor | None,
        state: RecurrentCache | None,
        back: bool,
    ) -> tuple[Tensor, Tensor]:
        """Outputs and the sum over all keys, segment by segment, so that features stay in the processor's cache."""
        total_BHMV = None if state is None else state.values.get("sum")
        outs: list[Tensor] = []
        queries = q_BHQE.split(_SEGMENT, 2)
        keys, values = (repeat_kv(each, q_BHQE).split(_SEGMENT, 2) for each in (k_BGKE, v_BGKF))
        reals = [None] * len(keys) if valid_BK is None else valid_BK[:, None, :, None].split(_SEGMENT, 2)
        # Sums over a long sequence exceed half precision.
        with without_autocast(q_BHQE):
            for number, (k_BHSE, v_BHSF, real) in enumerate(zip(keys, values, reals, strict=True)):
                k_BHSM = self._features(k_BHSE, "key")
                k_BHSM = k_BHSM if real is None else k_BHSM * real
                v_BHSV = F.pad(v_BHSF.to(k_BHSM.dtype), (0, 1), value=1.0)
                if back:
                    q_BHSM = self._features(queries[number], "query")
                    out_BHSV, total_BHMV = causal_linear_sums(q_BHSM, k_BHSM, v_BHSV, total_BHMV)
                    outs.append(self._divide(out_BHSV, v_BGKF.dtype))
                else:
                    added_BHMV = k_BHSM.transpose(-1, -2) @ v_BHSV
                    total_BHMV = added_BHMV if total_BHMV is None else total_BHMV + added_BHMV
            assert total_BHMV is not None
            if not back:
                outs = [self._divide(self._features(q, "query") @ total_BHMV, v_BGKF.dtype) for q in queries]
        return torch.cat(outs, 2), total_BHMV

    def _features(self, x_BHLE: Tensor, side: Literal["query", "key"]) -> Tensor:
        with without_autocast(x_BHLE):
            return self.features(at_least_float32(x_BHLE), side)

    @staticmethod
    def _divide(out_BHQV: Tensor, dtype: torch.dtype) -> Tensor:
        return (out_BHQV[..., :-1] / _safe(out_BHQV[..., -1:])).to(dtype)


def _safe(total: Tensor) -> Tensor:
    """The divisor, 1 where no key was visible, so that the output is zero."""
    return total.where(total > 0, torch.ones_like(total))


def causal_linear_sums(
    q_BHLM: Tensor, k_BHLM: Tensor, v_BHLV: Tensor, known_BHMV: Tensor | None, size: int = _CHUNK
) -> tuple[Tensor, Tensor]:
    """Causal linear attention in chunks: sums of (q · k) v [B, H, L, V], and of k v over all keys [B, H, M, V]."""
    length = q_BHLM.shape[2]
    size = min(size, length)
    missing = -length % size
    q_BHNCM, k_BHNCM, v_BHNCV = (
        (F.pad(each, (0, 0, 0, missing)) if missing else each).unflatten(2, (-1, size))
        for each in (q_BHLM, k_BHLM, v_BHLV)
    )
    within_BHNCV = (q_BHNCM @ k_BHNCM.transpose(-1, -2)).tril() @ v_BHNCV
    each_BHNMV = k_BHNCM.transpose(-1, -2) @ v_BHNCV
    if known_BHMV is not None:
        each_BHNMV = torch.cat([known_BHMV.unsqueeze(2), each_BHNMV], 2)
    else:
        each_BHNMV = F.pad(each_BHNMV, (0, 0, 0, 0, 1, 0))
    # Exclusive prefix sums; subtracting a chunk from an inclusive sum would leave its rounding error behind.
    upto_BHNMV = each_BHNMV.cumsum(2)
    out_BHNCV = within_BHNCV + q_BHNCM @ upto_BHNMV[:, :, :-1]
    out_BHLV = out_BHNCV.flatten(2, 3)
    return out_BHLV[:, :, :length] if missing else out_BHLV, upto_BHNMV[:, :, -1]
