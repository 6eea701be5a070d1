"""Model families (encoder-decoder, decoder, encoder) and the regularizers that observe their attention.

Shapes: B batch, L tokens, N real tokens, V outputs of the head (vocabulary or classes).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence

from torch import Tensor, nn

from kit.contracts.attention import Attention
from kit.contracts.embedding import Embedding, Head
from kit.contracts.probe import attention_kind
from kit.contracts.regularizer import Regularizer
from kit.contracts.stack import EncoderOutput, Stack
from kit.contracts.sublayer import Norm
from kit.errors import KitError
from kit.kernels.dropout import Dropout
from kit.model.decoding_session import DecodingSession, GreedySteps
from kit.plugin.component import BuildContext
from kit.sequence.attention_context import AttentionContext
from kit.sequence.batch_layout import BatchLayout, TokenBatch
from kit.sequence.cache import Cache
from kit.sequence.observer import AttentionObserver


class RegularizerHooks:
    """The observers of one tower's pass: its active regularizers before any other; free where none is active."""

    def __init__(self, regularizers: Sequence[Regularizer], stack: str) -> None:
        self.regularizers = regularizers
        self.stack = stack

    def observe(self, observer: AttentionObserver | None) -> AttentionObserver | None:
        """An observer of the active regularizers and the given observer."""
        active = [regularizer for regularizer in self.regularizers if regularizer.active]
        for regularizer in active:
            regularizer.begin(self.stack)
        return _ObserverList([*active, *([] if observer is None else [observer])]) if active else observer


class _ObserverList(AttentionObserver):
    """Reports to several observers in turn; each may replace the outputs of heads for the next."""

    def __init__(self, observers: Sequence[AttentionObserver]) -> None:
        self.observers = observers

    def weights(self, build_context: BuildContext, weights_BHQK: Tensor, context: AttentionContext) -> None:
        for observer in self.observers:
            if _wants(observer, build_context):
                observer.weights(build_context, weights_BHQK, context)

    def without_weights(self, build_context: BuildContext, reason: str) -> None:
        for observer in self.observers:
            if _wants(observer, build_context):
                observer.without_weights(build_context, reason)

    def values(self, build_context: BuildContext, v_BGKF: Tensor, context: AttentionContext) -> None:
        for observer in self.observers:
            if _wants(observer, build_context):
                observer.values(build_context, v_BGKF, context)

    def heads(self, build_context: BuildContext, out_BHQF: Tensor) -> Tensor:
        for observer in self.observers:
            if _wants(observer, build_context):
                out_BHQF = observer.heads(build_context, out_BHQF)
        return out_BHQF


def attach_regularizers(model: nn.Module, regularizers: Sequence[Regularizer]) -> None:
    """Attach each regularizer to the attentions of a model that it applies to."""
    parts = [part for part in model.modules() if isinstance(part, Attention) and part.capabilities.weights]
    for regularizer in regularizers:
        chosen = [part for part in parts if attention_kind(part.build_context) in regularizer.options.where]
        regularizer.attach({part.build_context.name: _head_count(part) for part in chosen})


def _wants(observer: AttentionObserver, build_context: BuildContext) -> bool:
    return not isinstance(observer, Regularizer) or observer.applies_to(build_context)


def _head_count(part: Attention) -> int:
    return int(getattr(part, "heads", 0) or type(part).head_shape(part.options, part.dims)[0])


class Tower(nn.Module):
    """An encoder or a decoder with its embedding: token ids in, vectors of the last layer out."""

    def __init__(self, embedding: Embedding, stack: Stack, norm: Norm | None, dropout: float) -> None:
        super().__init__()
        self.embedding = embedding
        self.norm = norm
        self.dropout = Dropout(dropout)
        self.stack = stack
        self.regularizer_hooks: RegularizerHooks | None = None
        """Those of the model's regularizers, if it has any."""

    def forward(
        self,
        tokens: TokenBatch,
        layout: BatchLayout,
        memory: EncoderOutput | None = None,
        state: Cache | None = None,
        observer: AttentionObserver | None = None,
    ) -> Tensor:
        """Vectors of the last layer in the given layout: [..., D]."""
        features = {
            name: layout.unpad(tokens.features[name]) for name in self.embedding.reads if name in tokens.features
        }
        x = self.embedding.mark(self.embedding(layout.unpad(tokens.ids)), features)
        x = self.stack.embed(x, layout.packed_positions)
        if self.norm is not None:
            x = self.norm(x)
        if self.regularizer_hooks is not None:
            observer = self.regularizer_hooks.observe(observer)
        last: Tensor = self.stack(self.dropout(x), layout, memory, state, observer)
        return last


class Model(nn.Module):
    """A model of any family: tokens in, logits out."""

    def __init__(
        self, towers: Mapping[str, Tower], head: Head, tied: bool, regularizers: Sequence[Regularizer] = ()
    ) -> None:
        super().__init__()
        for name, tower in towers.items():
            self.add_module(name, tower)
        self.head = head
        self.tied = tied
        self.regularizers = nn.ModuleList(regularizers)
        """Regularizers of attention, active in training."""
        attach_regularizers(self, regularizers)
        for name, tower in towers.items():
            tower.regularizer_hooks = RegularizerHooks(regularizers, name) if regularizers else None

    @abstractmethod
    def forward(
        self,
        source: TokenBatch | Tensor | None = None,
        target: TokenBatch | Tensor | None = None,
        packed: bool = False,
        observer: AttentionObserver | None = None,
    ) -> Tensor:
        """Logits for every token [B, L, V] or for every sequence [B, V], by the head.

        packed: compute without padding (packed tokens); the logits of real tokens only, [N, V], row by row.
        """

    def logits(self, x: Tensor, layout: BatchLayout, embedding: Embedding) -> Tensor:
        """Logits of the head, which shares the embedding where they are tied."""
        logits: Tensor = self.head(x, layout, embedding if self.tied else None)
        return logits

    @property
    def overwritable_logits(self) -> bool:
        """Whether a loss may overwrite the logits with their gradient, because no backward pass reads them."""
        *_, tower = (child for child in self.children() if isinstance(child, Tower))
        return not self.head.keeps_logits(tower.embedding if self.tied else None)

    def decode_step(
        self,
        decoder: Tower,
        tokens: TokenBatch,
        layout: BatchLayout,
        memory: EncoderOutput | None,
        state: Cache,
        observer: AttentionObserver | None,
    ) -> tuple[Tensor, Tensor]:
        """One decoding step: vectors of the last layer, and the logits of the next token after each."""
        x = decoder(tokens, layout, memory, state, observer)
        return x, self.logits(x, layout, decoder.embedding)

    def decode_greedy(
        self,
        decoder: Tower,
        tokens: TokenBatch,
        layouts: Iterator[BatchLayout],
        memory: EncoderOutput | None,
        state: Cache,
        suppressed_ids: Tensor,
        end: int,
    ) -> GreedySteps | None:
        """Greedy decoding from one token, at most one step per layout, stopping after `end`.

        Implemented by compiled decoders; None, without any step, where steps have to be taken one by one.
        """
        return None

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from kit.model.part_tree import model_html

        return model_html(self)


class EncoderDecoder(Model):
    """An encoder-decoder for sequence-to-sequence tasks such as translation."""

    encoder: Tower
    decoder: Tower

    def encode(
        self, source: TokenBatch | Tensor, packed: bool = False, observer: AttentionObserver | None = None
    ) -> EncoderOutput:
        """What the decoder will attend to."""
        tokens = TokenBatch.of(source)
        layout = _layout(tokens, packed)
        return EncoderOutput(self.encoder(tokens, layout, observer=observer), layout)

    def forward(
        self,
        source: TokenBatch | Tensor | None = None,
        target: TokenBatch | Tensor | None = None,
        packed: bool = False,
        observer: AttentionObserver | None = None,
    ) -> Tensor:
        """Logits of the token after each target token: [B, L, V]."""
        memory = self.encode(_given(source, "source"), packed, observer)
        tokens = TokenBatch.of(_given(target, "target"))
        layout = _layout(tokens, packed)
        return self.logits(self.decoder(tokens, layout, memory, observer=observer), layout, self.decoder.embedding)

    def start(self, source: TokenBatch | Tensor, observer: AttentionObserver | None = None) -> DecodingSession:
        """Encode the source; the session then decodes token by token."""
        memory = self.encode(source, packed=True, observer=observer).padded()
        return DecodingSession(self, self.decoder, memory, observer)


class DecoderModel(Model):
    """A decoder-only language model."""

    decoder: Tower

    def forward(
        self,
        source: TokenBatch | Tensor | None = None,
        target: TokenBatch | Tensor | None = None,
        packed: bool = False,
        observer: AttentionObserver | None = None,
    ) -> Tensor:
        """Logits of the token after each one [B, L, V]; the sequence may be given as source or as target."""
        tokens = TokenBatch.of(_given(source if target is None else target, "target"))
        layout = _layout(tokens, packed)
        return self.logits(self.decoder(tokens, layout, observer=observer), layout, self.decoder.embedding)

    def start(self, observer: AttentionObserver | None = None) -> DecodingSession:
        """A session that decodes token by token."""
        return DecodingSession(self, self.decoder, None, observer)


class EncoderModel(Model):
    """A bidirectional encoder, for masked tokens, classes and vectors."""

    encoder: Tower

    def forward(
        self,
        source: TokenBatch | Tensor | None = None,
        target: TokenBatch | Tensor | None = None,
        packed: bool = False,
        observer: AttentionObserver | None = None,
    ) -> Tensor:
        """Logits of each token [B, L, V], or of the sequence [B, V]."""
        tokens = TokenBatch.of(_given(target if source is None else source, "source"))
        layout = _layout(tokens, packed)
        return self.logits(self.encoder(tokens, layout, observer=observer), layout, self.encoder.embedding)


def _layout(tokens: TokenBatch, packed: bool) -> BatchLayout:
    layout = BatchLayout.of(tokens)
    return layout.packed() if packed else layout


def _given(tokens: TokenBatch | Tensor | None, name: str) -> TokenBatch | Tensor:
    if tokens is None:
        raise KitError(f"the model was given no {name}; call model({name}=TokenBatch.from_lists([[...], ...]))")
    return tokens
