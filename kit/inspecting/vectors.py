"""The vectors that a model gives to tokens in their context, layer by layer, one for each time a token occurs.

Shapes: N occurrences, L tokens of a text, D width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from kit.contracts.data import Example
from kit.inspecting.inspector import Inspector
from kit.inspecting.reading import Given, as_example, is_special
from kit.model.families import DecoderModel, EncoderDecoder, Model
from kit.tokens import Tokens

TABLE = "table"
"""The name of what stands before the first layer: one vector a token, whatever is around it."""
MOST = 20_000
"""Occurrences that are kept; texts after that are left out."""


@dataclass(frozen=True)
class ReadText:
    """One text as ids, with how each token is written."""

    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    counted: tuple[bool, ...]
    """Which tokens are words; the start and the end are not."""
    sense: str | None = None
    """What the words of this text that have several senses mean here, where that is known."""


@dataclass(frozen=True)
class Occurrences:
    """Every time a token occurred: which one, in which sense, and its vector in each layer."""

    words: tuple[str, ...]
    senses: tuple[str | None, ...]
    texts: tuple[int, ...]
    """Which text each occurrence is in."""
    layers: Mapping[str, Tensor]
    """[N, D] by the name of the layer: table, layer 1, layer 2, …"""

    def of(self, word: str) -> Occurrences:
        """Those of one word."""
        places = [place for place, found in enumerate(self.words) if found == word]
        return Occurrences(
            tuple(self.words[place] for place in places),
            tuple(self.senses[place] for place in places),
            tuple(self.texts[place] for place in places),
            {name: vectors[places] for name, vectors in self.layers.items()},
        )

    def beside(self, name: str, vectors: Mapping[str, Tensor]) -> Occurrences:
        """The same with one more layer, in which a word has one vector; words without one are left out everywhere."""
        places = [place for place, word in enumerate(self.words) if word in vectors]
        kept = Occurrences(
            tuple(self.words[place] for place in places),
            tuple(self.senses[place] for place in places),
            tuple(self.texts[place] for place in places),
            {layer: found[places] for layer, found in self.layers.items()},
        )
        if not places:
            return kept
        table = torch.stack([vectors[word] for word in kept.words])
        return replace(kept, layers={name: table, **kept.layers})


def read_texts(inspector: Inspector, texts: Iterable[Given]) -> Iterator[ReadText]:
    """Texts as the first stack of a run's model reads them."""
    for given in texts:
        example: Example = as_example(given)
        row = replace(inspector.reader.ids(example), target=())
        source, target = inspector.reader.inputs(inspector.reader.batch([row]))
        tokens = source or target
        assert tokens is not None
        ids = tuple(tokens.ids[0].tolist())
        names = tuple(word_of(inspector.reader.tokenizers.source.token(number)) for number in ids)
        yield ReadText(ids, names, tuple(not is_special(number) for number in ids), example.label)


def word_of(token: str) -> str:
    """A token as a person writes it, without the mark of the space before it."""
    return token.strip("▁Ġ ") or token


@torch.inference_mode()
def occurrences(model: Model, texts: Iterable[ReadText]) -> Occurrences:
    """The vectors of all words in these texts; texts are read one by one, as if nothing else were there."""
    words: list[str] = []
    senses: list[str | None] = []
    numbers: list[int] = []
    found: dict[str, list[Tensor]] = {}
    device = next(model.parameters()).device
    for number, text in enumerate(texts):
        with _layers(model) as seen:
            _read(model, Tokens.of(torch.tensor([text.ids], device=device)))
        places = [place for place, counted in enumerate(text.counted) if counted]
        words += [text.tokens[place] for place in places]
        senses += [text.sense] * len(places)
        numbers += [number] * len(places)
        for name, vectors_LD in seen.items():
            found.setdefault(name, []).append(vectors_LD[places].float().cpu())
        if len(words) >= MOST:
            break
    whole = {name: torch.cat(each) for name, each in found.items() if sum(map(len, each)) == len(words)}
    return Occurrences(tuple(words), tuple(senses), tuple(numbers), whole)


def _read(model: Model, tokens: Tokens) -> None:
    if isinstance(model, EncoderDecoder):
        model.encode(tokens)
    elif isinstance(model, DecoderModel):
        model(target=tokens)
    else:
        model(source=tokens)


@contextmanager
def _layers(model: Model) -> Iterator[dict[str, Tensor]]:
    """What comes out of the embedding and of each layer of the first stack, [L, D], while the model runs."""
    side: Any = model.decoder if isinstance(model, DecoderModel) else getattr(model, "encoder", None)
    seen: dict[str, Tensor] = {}
    parts: Sequence[nn.Module] = list(getattr(side.stack, "layers", ()))
    named = {TABLE: side.embedding} | {f"layer {number}": part for number, part in enumerate(parts, 1)}
    named = named if parts else named | {"last": side.stack}
    handles = [part.register_forward_hook(_keeper(seen, name)) for name, part in named.items()]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def _keeper(seen: dict[str, Tensor], name: str) -> Callable[[Any, Any, Any], None]:
    def keep(module: Any, given: Any, out: Any) -> None:
        # Some residuals carry several streams between layers; those have no one vector a token.
        if isinstance(out, Tensor) and out.dim() == 3 and out.shape[0] == 1:
            seen[name] = out[0]

    return keep
