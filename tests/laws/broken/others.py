"""Feed-forward layers, embeddings, heads and stacks that break one law each."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from kit import (
    MLP,
    AttentionContext,
    BatchLayout,
    BuildContext,
    Cache,
    Dims,
    Embedding,
    Head,
    MLPOptions,
    NoCache,
    Options,
)
from kit_embedding.token import TokenEmbedding, TokenOptions
from kit_stack.options import TransformerOptions
from kit_stack.transformer import TransformerCache, TransformerStack


class BrokenFeedforwardOptions(MLPOptions):
    use: Literal["broken"] = "broken"


class BrokenFeedforward(MLP):
    options_type = BrokenFeedforwardOptions
    breaks: tuple[str, ...] = ()
    mixes_tokens = True

    def activate(self, hidden: Tensor) -> Tensor:
        return torch.tanh(hidden)


class WrongShape(BrokenFeedforward):
    breaks = ("feedforward.shape",)

    def transform(self, x: Tensor) -> Tensor:
        return super().transform(x)[..., :-1]


class MixesHiddenNumbers(BrokenFeedforward):
    breaks = ("part.tensor_parallel",)

    def activate(self, hidden: Tensor) -> Tensor:
        return hidden.softmax(-1)


class MixesUnasked(BrokenFeedforward):
    breaks = ("feedforward.token_independence",)
    mixes_tokens = False

    def forward(self, x: Tensor, context: AttentionContext, state: Cache | None = None) -> Tensor:
        return self.transform(x + 0.1 * x.mean(-2, keepdim=True))


class SeesTheNext(BrokenFeedforward):
    breaks = ("feedforward.causality",)

    def forward(self, x: Tensor, context: AttentionContext, state: Cache | None = None) -> Tensor:
        return self.transform(x + 0.1 * x.roll(-1, -2))


class CountsPadding(BrokenFeedforward):
    breaks = ("feedforward.padding_invariance",)

    def forward(self, x: Tensor, context: AttentionContext, state: Cache | None = None) -> Tensor:
        rows = context.queries.pad(x)
        return self.transform(context.queries.unpad(rows + 0.1 * rows.roll(1, -2)))


class ForgetsThePrevious(BrokenFeedforward):
    breaks = ("feedforward.incremental_decoding",)

    def forward(self, x: Tensor, context: AttentionContext, state: Cache | None = None) -> Tensor:
        rows = context.queries.pad(x)
        return self.transform(context.queries.unpad(torch.cat([rows[:, :1], 0.5 * (rows[:, 1:] + rows[:, :-1])], 1)))


class BrokenTokenOptions(TokenOptions):
    use: Literal["broken"] = "broken"  # type: ignore[assignment]


class BrokenEmbedding(TokenEmbedding):
    options_type = BrokenTokenOptions
    breaks: tuple[str, ...] = ()
    default = False


class NoWayBack(BrokenEmbedding):
    breaks = ("embedding.shape",)

    def project(self, x: Tensor) -> Tensor:
        return x


class LooksAround(BrokenEmbedding):
    breaks = ("embedding.token_independence",)

    def forward(self, ids: Tensor) -> Tensor:
        return super().forward(ids) + ids.double().mean()


class TwoTables(BrokenEmbedding):
    breaks = ("embedding.tied_projection",)

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        assert dims.vocabulary is not None
        self.back = nn.Linear(dims.width, dims.vocabulary, bias=False)

    def project(self, x: Tensor) -> Tensor:
        out: Tensor = self.back(x)
        return out


class BrokenHeadOptions(Options):
    use: Literal["broken"] = "broken"


class BrokenHead(Head):
    options_type = BrokenHeadOptions
    breaks: tuple[str, ...] = ()

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.score = nn.Linear(dims.width, 3)

    def forward(self, x: Tensor, layout: BatchLayout, embedding: Embedding | None) -> Tensor:
        out: Tensor = self.score(x)
        return out


class ScoresTokensForTexts(BrokenHead):
    breaks = ("head.shape",)
    per_token = False


class PoolsPadding(BrokenHead):
    breaks = ("head.padding_invariance",)
    per_token = False

    def forward(self, x: Tensor, layout: BatchLayout, embedding: Embedding | None) -> Tensor:
        out: Tensor = self.score(layout.pad(x).mean(1))
        return out


class OverwritesSavedLogits(BrokenHead):
    breaks = ("head.overwritten_logits",)

    def forward(self, x: Tensor, layout: BatchLayout, embedding: Embedding | None) -> Tensor:
        return torch.tanh(self.score(x))

    def keeps_logits(self, embedding: Embedding | None) -> bool:
        return False


class BrokenStackOptions(TransformerOptions):
    use: Literal["broken"] = "broken"  # type: ignore[assignment]


class BrokenStack(TransformerStack):
    options_type = BrokenStackOptions
    breaks: tuple[str, ...] = ()
    default = False


class WrongStackShape(BrokenStack):
    breaks = ("stack.shape",)

    def forward(self, *given: Any) -> Tensor:
        return super().forward(*given)[..., :-1]


class MixesTexts(BrokenStack):
    breaks = ("stack.padding_invariance",)

    def forward(self, x: Tensor, layout: BatchLayout, *given: Any) -> Tensor:
        rows = layout.pad(super().forward(x, layout, *given))
        return layout.unpad(rows + 0.1 * rows.mean(0, keepdim=True))


class SeesTheLast(BrokenStack):
    breaks = ("stack.causality",)

    def forward(self, x: Tensor, layout: BatchLayout, *given: Any) -> Tensor:
        rows = layout.pad(super().forward(x, layout, *given))
        return layout.unpad(rows + 1e-9 * rows[:, -1:])


class StartsAgain(BrokenStack):
    breaks = ("stack.incremental_decoding",)

    def start(self) -> Cache:
        return NoCache()


class _Stubborn(TransformerCache):
    def reorder(self, rows: Tensor) -> None:
        super().reorder(torch.arange(rows.shape[0]).clamp(max=2))


class KeepsItsRows(BrokenStack):
    breaks = ("stack.cache_reorder",)

    def start(self) -> Cache:
        state = super().start()
        assert isinstance(state, TransformerCache)
        return _Stubborn(state.parts)


class _Mixing(TransformerCache):
    def evict_except(self, tokens_BK: Tensor) -> None:
        super().evict_except(tokens_BK.flip(1))


class MixesKeptTokens(BrokenStack):
    """Keeps the tokens that beams descend from, in another order than they are told of."""

    breaks = ("stack.shared_beams",)

    def start(self) -> Cache:
        state = super().start()
        assert isinstance(state, TransformerCache)
        return _Mixing(state.parts)


class Shy(BrokenStack):
    breaks = ("stack.observed",)

    def forward(
        self, x: Tensor, layout: BatchLayout, memory: Any = None, state: Any = None, observer: Any = None
    ) -> Tensor:
        out = super().forward(x, layout, memory, state, observer)
        return out if observer is None else 1.01 * out
