"""Attention by a feature map, phi(q) · phi(k): sums over keys replace weights, so cost is linear and memory constant.

Transformers are RNNs (Katharopoulos et al. 2020), section 3.
Shapes: B rows, H heads, G groups, Q queries, K keys, L tokens, N chunks, C tokens in a chunk, E width of a key,
M features, S tokens of a stretch, F width of a value; V is F + 1, a value with a one at its end, to sum the divisor.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from kit import (
    Abilities,
    Dims,
    MultiHeadAttention,
    Problem,
    Scope,
    Site,
    State,
    TensorState,
    repeat_groups,
    without_autocast,
)
from kit_attention.only import looks_back, refuse_dropout
from kit_attention.widening import widened

_CHUNK = 64
"""How many tokens are summed as pairs, the rest as sums."""
_STRETCH = 1024
"""How many tokens have their features made at a time."""


class KernelizedAttention(MultiHeadAttention):
    """Override `features`."""

    # Turning features would make weights that can be negative, so positions come with the vectors or not at all.
    abilities = Abilities(masks=frozenset({"causal"}), positions=frozenset(), cost="linear")

    @classmethod
    def check(cls, options: Any, dims: Dims, site: Site) -> Iterator[Problem]:
        """There are no weights to drop."""
        yield from super().check(options, dims, site)
        yield from refuse_dropout(options, site, cls.part_name())

    @abstractmethod
    def features(self, x_BHLE: Tensor, side: Literal["query", "key"]) -> Tensor:
        """Queries or keys as features that are never negative: [B, H, L, M], each token by itself."""

    def start(self) -> State:
        """One sum over all keys so far, or over the memory."""
        return TensorState()

    def forward(self, x: Tensor, memory: Tensor | None, scope: Scope, state: State | None = None) -> Tensor:
        """Project, sum, join."""
        across = self.dims.memory is not None
        if not isinstance(state, TensorState) or (across and scope.watcher is not None):
            return super().forward(x, memory, scope, None)
        if across and state.values:
            (q_BHQE,) = scope.queries.to_heads(self.query(x), self.heads)
            out_BHQF = self._divide(self._features(q_BHQE, "query") @ state.values["sum"], x.dtype)
        else:
            q, k, v = self.project(x, memory, scope, None)
            valid = scope.keys.valid if across else scope.queries.valid
            out_BHQF, total_BHMV = self._run(q, k, v, valid, None if across else state, not across)
            state.values = {"sum": total_BHMV}
        if scope.watcher is not None:
            scope.watcher.without_weights(self.site, "step by step it remembers a sum over keys, and no key by itself")
            out_BHQF = scope.watcher.heads(self.site, out_BHQF)
        return self.join(scope.queries.from_heads(out_BHQF), x)

    def weigh(self, q_BHQE: Tensor, k_BGKE: Tensor, scope: Scope) -> Tensor:
        """What the sums amount to for each pair."""
        looks_back(scope, self.part_name())
        k_BHKM = repeat_groups(self._features(k_BGKE, "key"), q_BHQE)
        products_BHQK = self._features(q_BHQE, "query") @ k_BHKM.transpose(-1, -2)
        if scope.allowed is not None:
            products_BHQK = products_BHQK * scope.allowed
        total_BHQ1 = products_BHQK.sum(-1, keepdim=True)
        return (products_BHQK / _safe(total_BHQ1)).to(q_BHQE.dtype)

    def attend(self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, scope: Scope) -> Tensor:
        """By sums; over chunks where the future is hidden."""
        return self._run(q_BHQE, k_BGKE, v_BGKF, scope.keys.valid, None, looks_back(scope, self.part_name()))[0]

    def _run(
        self,
        q_BHQE: Tensor,
        k_BGKE: Tensor,
        v_BGKF: Tensor,
        valid_BK: Tensor | None,
        state: TensorState | None,
        back: bool,
    ) -> tuple[Tensor, Tensor]:
        """What heads give, and the sum over all keys; stretch by stretch, so that features stay in the cache."""
        total_BHMV = None if state is None else state.values.get("sum")
        outs: list[Tensor] = []
        queries = q_BHQE.split(_STRETCH, 2)
        keys, values = (repeat_groups(each, q_BHQE).split(_STRETCH, 2) for each in (k_BGKE, v_BGKF))
        reals = [None] * len(keys) if valid_BK is None else valid_BK[:, None, :, None].split(_STRETCH, 2)
        # Sums over a long text need more digits than a half-precision type has.
        with without_autocast(q_BHQE):
            for number, (k_BHSE, v_BHSF, real) in enumerate(zip(keys, values, reals, strict=True)):
                k_BHSM = self._features(k_BHSE, "key")
                k_BHSM = k_BHSM if real is None else k_BHSM * real
                v_BHSV = F.pad(v_BHSF.to(k_BHSM.dtype), (0, 1), value=1.0)
                if back:
                    q_BHSM = self._features(queries[number], "query")
                    out_BHSV, total_BHMV = sums_so_far(q_BHSM, k_BHSM, v_BHSV, total_BHMV)
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
            return self.features(widened(x_BHLE), side)

    @staticmethod
    def _divide(out_BHQV: Tensor, dtype: torch.dtype) -> Tensor:
        return (out_BHQV[..., :-1] / _safe(out_BHQV[..., -1:])).to(dtype)


def _safe(total: Tensor) -> Tensor:
    """A divisor; where nothing was seen it is one, so that the answer is zero."""
    return total.where(total > 0, torch.ones_like(total))


def sums_so_far(
    q_BHLM: Tensor, k_BHLM: Tensor, v_BHLV: Tensor, known_BHMV: Tensor | None, size: int = _CHUNK
) -> tuple[Tensor, Tensor]:
    """The sum of (q · k) v over keys no later than each query; and the sum of k v over all, known ones included."""
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
    # The sum before each chunk: what a chunk itself adds must come later, never be taken away again by rounding.
    upto_BHNMV = each_BHNMV.cumsum(2)
    out_BHNCV = within_BHNCV + q_BHNCM @ upto_BHNMV[:, :, :-1]
    out_BHLV = out_BHNCV.flatten(2, 3)
    return out_BHLV[:, :, :length] if missing else out_BHLV, upto_BHNMV[:, :, -1]
