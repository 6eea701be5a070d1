"""Attentions that break one law each, in a way that has been seen in the wild or is easy to fall into."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import PositiveInt
from torch import Tensor

from kit import Abilities, KeyValueState, MultiHeadAttention, MultiHeadOptions, Scope, Site, State, Watcher


class BrokenOptions(MultiHeadOptions):
    use: Literal["broken"] = "broken"
    heads: PositiveInt = 4


class Broken(MultiHeadAttention):
    """Sound as it is; each class below does one thing wrong."""

    options_type = BrokenOptions
    breaks: tuple[str, ...] = ()


class WrongShape(Broken):
    breaks = ("attention.shape",)

    def join(self, out: Tensor, x: Tensor) -> Tensor:
        return super().join(out, x)[..., :-1]


class WeighsPadding(Broken):
    breaks = ("attention.hidden_keys",)

    def weigh(self, q_BHQE: Tensor, k_BGKE: Tensor, scope: Scope) -> Tensor:
        weights = super().weigh(q_BHQE, k_BGKE, scope)
        return weights if scope.keys.valid is None else weights + 1e-3 * ~scope.keys.valid[:, None, None]


class OnlyCausal(Broken):
    """Claims any mask, and knows the causal one only."""

    breaks = ("attention.masked_pairs",)

    def weigh(self, q_BHQE: Tensor, k_BGKE: Tensor, scope: Scope) -> Tensor:
        if scope.mask is None or scope.mask.shape == "causal":
            return super().weigh(q_BHQE, k_BGKE, scope)
        return super().weigh(q_BHQE, k_BGKE, Scope(scope.queries, scope.keys, None, scope.position))


class SeesTheMean(Broken):
    """Centres values over the whole text, future included."""

    breaks = ("attention.causality",)

    def attend(self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, scope: Scope) -> Tensor:
        return super().attend(q_BHQE, k_BGKE, v_BGKF - 1e-6 * v_BGKF.mean(2, keepdim=True), scope)


class LargeNegative(Broken):
    """Fills masks with the smallest number, so that a query that sees nothing sees everything."""

    breaks = ("attention.blind_queries",)

    def weigh(self, q_BHQE: Tensor, k_BGKE: Tensor, scope: Scope) -> Tensor:
        scores = scope.scores(q_BHQE, k_BGKE, self.scale)
        if scope.allowed is not None:
            scores = scores.masked_fill(~scope.allowed, torch.finfo(scores.dtype).min)
        return scores.softmax(-1)


class ForgetsPositions(Broken):
    breaks = ("attention.positions_count",)

    def weigh(self, q_BHQE: Tensor, k_BGKE: Tensor, scope: Scope) -> Tensor:
        return super().weigh(q_BHQE, k_BGKE, Scope(scope.queries, scope.keys, scope.mask))


class CountsColumns(Broken):
    """Prefers later columns, wherever the text begins in its row."""

    breaks = ("attention.padding",)

    def weigh(self, q_BHQE: Tensor, k_BGKE: Tensor, scope: Scope) -> Tensor:
        scores = scope.scores(q_BHQE, k_BGKE, self.scale)
        first = torch.arange(scores.shape[-1], device=scores.device) == 0
        return scope.weigh(scores + first)


class MixesRows(Broken):
    breaks = ("attention.batch_equals_single",)

    def attend(self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, scope: Scope) -> Tensor:
        return super().attend(q_BHQE, k_BGKE, v_BGKF + 0.1 * v_BGKF.mean(0, keepdim=True), scope)


class OtherwisePacked(Broken):
    breaks = ("attention.packed",)

    def join(self, out: Tensor, x: Tensor) -> Tensor:
        return super().join(out if x.dim() == 3 else 1.01 * out, x)


class _Forgetful(KeyValueState):
    """Remembers keys, and of values only the newest."""

    def append(self, k_BGKE: Tensor, v_BGKE: Tensor) -> tuple[Tensor, Tensor]:
        keys, values = super().append(k_BGKE, v_BGKE)
        old = values.shape[2] - v_BGKE.shape[2]
        return keys, torch.cat([torch.zeros_like(values[:, :, :old]), values[:, :, old:]], 2)


class Forgets(Broken):
    breaks = ("attention.steps",)

    def start(self) -> State:
        return _Forgetful() if self.dims.memory is None else super().start()


class _Stubborn(KeyValueState):
    """Takes the first rows, whichever are chosen."""

    def select(self, rows: Tensor) -> None:
        super().select(torch.arange(rows.shape[0]).clamp(max=int(rows.max())))


class KeepsItsRows(Broken):
    breaks = ("attention.select",)

    def start(self) -> State:
        return _Stubborn() if self.dims.memory is None else super().start()


class Secretive(Broken):
    breaks = ("attention.watched",)

    def forward(self, x: Tensor, memory: Tensor | None, scope: Scope, state: State | None = None) -> Tensor:
        return super().forward(x, memory, Scope(scope.queries, scope.keys, scope.mask, scope.position), state)


class SharesTooLittle(Broken):
    breaks = ("attention.shares",)

    def weigh(self, q_BHQE: Tensor, k_BGKE: Tensor, scope: Scope) -> Tensor:
        return 0.9 * super().weigh(q_BHQE, k_BGKE, scope)


class _Deaf(Watcher):
    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher

    def weights(self, site: Site, weights_BHQK: Tensor, scope: Scope) -> None:
        self.watcher.weights(site, weights_BHQK, scope)

    def heads(self, site: Site, out_BHQF: Tensor) -> Tensor:
        self.watcher.heads(site, out_BHQF)
        return out_BHQF


class WillNotBeChanged(Broken):
    breaks = ("attention.watched_heads",)

    def forward(self, x: Tensor, memory: Tensor | None, scope: Scope, state: State | None = None) -> Tensor:
        watcher = None if scope.watcher is None else _Deaf(scope.watcher)
        return super().forward(x, memory, Scope(scope.queries, scope.keys, scope.mask, scope.position, watcher), state)


class OtherwiseWhenLong(Broken):
    """A fast path that nobody tried: only texts longer than a block take it."""

    breaks = ("attention.fast_path",)

    def attend(self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, scope: Scope) -> Tensor:
        out = super().attend(q_BHQE, k_BGKE, v_BGKF, scope)
        return out if q_BHQE.shape[2] <= 64 else 1.001 * out


class BoastsOfLinear(Broken):
    breaks = ("attention.growth",)
    abilities = Abilities(cost="linear")


class OtherwiseCompiled(Broken):
    breaks = ("attention.traced", "attention.compiled")

    def join(self, out: Tensor, x: Tensor) -> Tensor:
        return super().join(1.01 * out if torch.compiler.is_compiling() else out, x)
