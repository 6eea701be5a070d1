"""The three families of model: encoder-decoder, encoder, decoder.

Shapes: B rows, L tokens, N real tokens, V choices of the head (vocabulary or classes).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence

from torch import Tensor, nn

from kit.contracts.embedding import Embedding
from kit.contracts.head import Head
from kit.contracts.regularizer import Regularizer
from kit.contracts.stack import Memory
from kit.errors import KitError
from kit.layout import Layout
from kit.model.session import Session
from kit.model.shaping import Shaping, shape
from kit.model.side import Side
from kit.model.stretched import Stretched
from kit.state import State
from kit.tokens import Tokens
from kit.watching import Watcher


class Model(nn.Module):
    """A model of any family: tokens in, scores out."""

    def __init__(
        self, sides: Mapping[str, Side], head: Head, tied: bool, regularizers: Sequence[Regularizer] = ()
    ) -> None:
        super().__init__()
        for name, side in sides.items():
            self.add_module(name, side)
        self.head = head
        self.tied = tied
        self.regularizers = nn.ModuleList(regularizers)
        """What shapes attention in training."""
        shape(self, regularizers)
        for name, side in sides.items():
            side.shaping = Shaping(regularizers, name) if regularizers else None

    @abstractmethod
    def forward(
        self,
        source: Tokens | Tensor | None = None,
        target: Tokens | Tensor | None = None,
        packed: bool = False,
        watcher: Watcher | None = None,
    ) -> Tensor:
        """Scores for every token [B, L, V], or for every text [B, V], as the head gives them.

        packed: leave padding out of all work between attentions; the scores of real tokens only, [N, V], row by row.
        """

    def score(self, x: Tensor, layout: Layout, embedding: Embedding) -> Tensor:
        """The head, sharing the embedding where the recipe ties them."""
        scores: Tensor = self.head(x, layout, embedding if self.tied else None)
        return scores

    def advance(
        self,
        decoder: Side,
        tokens: Tokens,
        layout: Layout,
        memory: Memory | None,
        state: State,
        watcher: Watcher | None,
    ) -> tuple[Tensor, Tensor]:
        """One step of writing: vectors of the last layer, and the scores of what comes after each token."""
        x = decoder(tokens, layout, memory, state, watcher)
        return x, self.score(x, layout, decoder.embedding)

    def stretch(
        self,
        decoder: Side,
        tokens: Tokens,
        layouts: Iterator[Layout],
        memory: Memory | None,
        state: State,
        never_N: Tensor,
        end: int,
    ) -> Stretched | None:
        """Read one token, take the likeliest that is not among `never_N`, read that, and so on, at most once a layout.

        After `end` nothing more is read. None, and nothing read, where steps have to be taken one by one.
        """
        return None

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from kit.showing import model_html

        return model_html(self)


class EncoderDecoder(Model):
    """Reads a source and writes a target: translation, pronunciation, summaries."""

    encoder: Side
    decoder: Side

    def encode(self, source: Tokens | Tensor, packed: bool = False, watcher: Watcher | None = None) -> Memory:
        """What the decoder will attend to."""
        tokens = Tokens.of(source)
        layout = _layout(tokens, packed)
        return Memory(self.encoder(tokens, layout, watcher=watcher), layout)

    def forward(
        self,
        source: Tokens | Tensor | None = None,
        target: Tokens | Tensor | None = None,
        packed: bool = False,
        watcher: Watcher | None = None,
    ) -> Tensor:
        """Scores of the token after each target token."""
        memory = self.encode(_given(source, "source"), packed, watcher)
        tokens = Tokens.of(_given(target, "target"))
        layout = _layout(tokens, packed)
        return self.score(self.decoder(tokens, layout, memory, watcher=watcher), layout, self.decoder.embedding)

    def start(self, source: Tokens | Tensor, watcher: Watcher | None = None) -> Session:
        """Read the source once; the session then writes token by token."""
        memory = self.encode(source, packed=True, watcher=watcher).padded()
        return Session(self, self.decoder, memory, watcher)


class DecoderModel(Model):
    """Continues a text: a language model."""

    decoder: Side

    def forward(
        self,
        source: Tokens | Tensor | None = None,
        target: Tokens | Tensor | None = None,
        packed: bool = False,
        watcher: Watcher | None = None,
    ) -> Tensor:
        """Scores of the token after each one; the text may be given as source or as target."""
        tokens = Tokens.of(_given(source if target is None else target, "target"))
        layout = _layout(tokens, packed)
        return self.score(self.decoder(tokens, layout, watcher=watcher), layout, self.decoder.embedding)

    def start(self, watcher: Watcher | None = None) -> Session:
        """A session that writes token by token."""
        return Session(self, self.decoder, None, watcher)


class EncoderModel(Model):
    """Reads a text in both directions: hidden tokens, classes, vectors."""

    encoder: Side

    def forward(
        self,
        source: Tokens | Tensor | None = None,
        target: Tokens | Tensor | None = None,
        packed: bool = False,
        watcher: Watcher | None = None,
    ) -> Tensor:
        """Scores of each token, or of the whole text."""
        tokens = Tokens.of(_given(target if source is None else source, "source"))
        layout = _layout(tokens, packed)
        return self.score(self.encoder(tokens, layout, watcher=watcher), layout, self.encoder.embedding)


def _layout(tokens: Tokens, packed: bool) -> Layout:
    layout = Layout.of(tokens)
    return layout.packed() if packed else layout


def _given(tokens: Tokens | Tensor | None, name: str) -> Tokens | Tensor:
    if tokens is None:
        raise KitError(f"the model was given no {name}; call model({name}=Tokens.from_lists([[...], ...]))")
    return tokens
