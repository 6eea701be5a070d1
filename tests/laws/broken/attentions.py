"""Attentions that break one law each, in a way that has been seen in the wild or is easy to fall into."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import PositiveInt
from torch import Tensor

from kit import (
    AttentionContext,
    AttentionObserver,
    BuildContext,
    Cache,
    Capabilities,
    KVCache,
    MultiHeadAttention,
    MultiHeadOptions,
    RecurrentCache,
    repeat_kv,
)


class BrokenOptions(MultiHeadOptions):
    use: Literal["broken"] = "broken"
    heads: PositiveInt = 4


class Broken(MultiHeadAttention):
    """Sound as it is; each class below does one thing wrong."""

    options_type = BrokenOptions
    breaks: tuple[str, ...] = ()


class WrongShape(Broken):
    breaks = ("attention.shape",)

    def project_output(self, out: Tensor, x: Tensor) -> Tensor:
        return super().project_output(out, x)[..., :-1]


class WeighsPadding(Broken):
    breaks = ("attention.padded_keys",)

    def attention_weights(self, q_BHQE: Tensor, k_BGKE: Tensor, context: AttentionContext) -> Tensor:
        weights = super().attention_weights(q_BHQE, k_BGKE, context)
        return (
            weights if context.keys.padding_mask is None else weights + 1e-3 * ~context.keys.padding_mask[:, None, None]
        )


class OnlyCausal(Broken):
    """Claims any mask, and knows the causal one only."""

    breaks = ("attention.masked_keys",)

    def attention_weights(self, q_BHQE: Tensor, k_BGKE: Tensor, context: AttentionContext) -> Tensor:
        if context.mask is None or context.mask.shape == "causal":
            return super().attention_weights(q_BHQE, k_BGKE, context)
        return super().attention_weights(
            q_BHQE, k_BGKE, AttentionContext(context.queries, context.keys, None, context.position)
        )


class SeesTheMean(Broken):
    """Centres values over the whole text, future included."""

    breaks = ("attention.causality",)

    def attend(self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, context: AttentionContext) -> Tensor:
        return super().attend(q_BHQE, k_BGKE, v_BGKF - 1e-6 * v_BGKF.mean(2, keepdim=True), context)


class LargeNegative(Broken):
    """Fills masks with the smallest number, so that a query that sees nothing sees everything."""

    breaks = ("attention.fully_masked_queries",)

    def attention_weights(self, q_BHQE: Tensor, k_BGKE: Tensor, context: AttentionContext) -> Tensor:
        scores = context.scores(q_BHQE, k_BGKE, self.scale)
        if context.attention_mask is not None:
            scores = scores.masked_fill(~context.attention_mask, torch.finfo(scores.dtype).min)
        return scores.softmax(-1)


class ForgetsPositions(Broken):
    breaks = ("attention.position_methods",)

    def attention_weights(self, q_BHQE: Tensor, k_BGKE: Tensor, context: AttentionContext) -> Tensor:
        return super().attention_weights(q_BHQE, k_BGKE, AttentionContext(context.queries, context.keys, context.mask))


class CountsColumns(Broken):
    """Prefers later columns, wherever the text begins in its row."""

    breaks = ("attention.padding_invariance",)

    def attention_weights(self, q_BHQE: Tensor, k_BGKE: Tensor, context: AttentionContext) -> Tensor:
        scores = context.scores(q_BHQE, k_BGKE, self.scale)
        first = torch.arange(scores.shape[-1], device=scores.device) == 0
        return context.masked_softmax(scores + first)


class MixesRows(Broken):
    breaks = ("attention.batch_invariance",)

    def attend(self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, context: AttentionContext) -> Tensor:
        return super().attend(q_BHQE, k_BGKE, v_BGKF + 0.1 * v_BGKF.mean(0, keepdim=True), context)


class OtherwisePacked(Broken):
    breaks = ("attention.packed_equals_padded",)

    def project_output(self, out: Tensor, x: Tensor) -> Tensor:
        return super().project_output(out if x.dim() == 3 else 1.01 * out, x)


class _Forgetful(KVCache):
    """Remembers keys, and of values only the newest."""

    def append(self, k_BGKE: Tensor, v_BGKE: Tensor) -> tuple[Tensor, Tensor]:
        keys, values = super().append(k_BGKE, v_BGKE)
        old = values.shape[2] - v_BGKE.shape[2]
        return keys, torch.cat([torch.zeros_like(values[:, :, :old]), values[:, :, old:]], 2)


class Forgets(Broken):
    breaks = ("attention.incremental_decoding",)

    def start(self) -> Cache:
        return _Forgetful() if self.dims.memory is None else super().start()


class _Stubborn(KVCache):
    """Takes the first rows, whichever are chosen."""

    def reorder(self, rows: Tensor) -> None:
        super().reorder(torch.arange(rows.shape[0]).clamp(max=int(rows.max())))


class KeepsItsRows(Broken):
    breaks = ("attention.cache_reorder",)

    def start(self) -> Cache:
        return _Stubborn() if self.dims.memory is None else super().start()


class CountsAlongTheCache(Broken):
    """Favours near keys by their index in the cache; that is their distance until beams share a row."""

    breaks = ("attention.shared_beams",)
    capabilities = Capabilities(supports_shared_beams=True)

    def attention_weights(self, q_BHQE: Tensor, k_BGKE: Tensor, context: AttentionContext) -> Tensor:
        scores = context.scores(q_BHQE, k_BGKE, self.scale)
        if self.dims.memory is None:
            index_K = torch.arange(scores.shape[-1], device=scores.device)
            scores = scores - 0.3 * (index_K[-scores.shape[-2] :, None] - index_K).abs()
        return context.masked_softmax(scores)


class SumsUnderAutocast(Broken):
    """Softmax of a number for each key, by running sums in the format of its values."""

    breaks = ("attention.autocast_decoding",)
    capabilities = Capabilities(masks=frozenset({"causal"}), positions=frozenset(), reads_memory=False)

    def attention_weights(self, q_BHQE: Tensor, k_BGKE: Tensor, context: AttentionContext) -> Tensor:
        scores_BHK = repeat_kv(k_BGKE, q_BHQE)[..., 0]
        return context.masked_softmax(scores_BHK[:, :, None].expand(-1, -1, q_BHQE.shape[2], -1))

    def start(self) -> Cache:
        return RecurrentCache()

    def forward(
        self, x: Tensor, memory: Tensor | None, context: AttentionContext, state: Cache | None = None
    ) -> Tensor:
        if not isinstance(state, RecurrentCache):
            return super().forward(x, memory, context, None)
        q, k, v = self.project(x, memory, context, None)
        weights = k[..., :1].exp()
        if context.queries.padding_mask is not None:
            weights = weights * context.queries.padding_mask[:, None, :, None]
        new = torch.cat([weights * v, weights], -1).cumsum(2)
        total = new + state.values["sum"] if state.values else new
        state.values = {"sum": total[:, :, -1:]}
        out = repeat_kv(total[..., :-1] / total[..., -1:].clamp(min=1e-30), q)
        return self.project_output(context.queries.from_heads(out), x)


class Secretive(Broken):
    breaks = ("attention.observed",)

    def forward(
        self, x: Tensor, memory: Tensor | None, context: AttentionContext, state: Cache | None = None
    ) -> Tensor:
        return super().forward(
            x, memory, AttentionContext(context.queries, context.keys, context.mask, context.position), state
        )


class SharesTooLittle(Broken):
    breaks = ("attention.weights_sum_to_one",)

    def attention_weights(self, q_BHQE: Tensor, k_BGKE: Tensor, context: AttentionContext) -> Tensor:
        return 0.9 * super().attention_weights(q_BHQE, k_BGKE, context)


class _Deaf(AttentionObserver):
    def __init__(self, observer: AttentionObserver) -> None:
        self.observer = observer

    def weights(self, build_context: BuildContext, weights_BHQK: Tensor, context: AttentionContext) -> None:
        self.observer.weights(build_context, weights_BHQK, context)

    def heads(self, build_context: BuildContext, out_BHQF: Tensor) -> Tensor:
        self.observer.heads(build_context, out_BHQF)
        return out_BHQF


class WillNotBeChanged(Broken):
    breaks = ("attention.replaced_heads",)

    def forward(
        self, x: Tensor, memory: Tensor | None, context: AttentionContext, state: Cache | None = None
    ) -> Tensor:
        observer = None if context.observer is None else _Deaf(context.observer)
        return super().forward(
            x, memory, AttentionContext(context.queries, context.keys, context.mask, context.position, observer), state
        )


class OtherwiseWhenLong(Broken):
    """A fast path that nobody tried: only texts longer than a block take it."""

    breaks = ("attention.fused_equals_eager",)

    def attend(self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, context: AttentionContext) -> Tensor:
        out = super().attend(q_BHQE, k_BGKE, v_BGKF, context)
        return out if q_BHQE.shape[2] <= 64 else 1.001 * out


class BoastsOfLinear(Broken):
    breaks = ("attention.cost",)
    capabilities = Capabilities(cost="linear")


class OtherwiseCompiled(Broken):
    breaks = ("attention.traced", "attention.compiled")

    def project_output(self, out: Tensor, x: Tensor) -> Tensor:
        return super().project_output(1.01 * out if torch.compiler.is_compiling() else out, x)
