"""Contextual token vectors: the hidden state of every occurrence of every token, layer by layer.

Shapes: N occurrences, L tokens of a sequence, D width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from kit import (
    DecoderModel,
    EncoderDecoder,
    ExampleLike,
    Inspector,
    Model,
    TokenBatch,
    as_example,
    is_special_token,
)

TABLE = "table"
"""The name of the embedding's output, before the first layer."""
MAX_OCCURRENCES = 20_000
"""The number of occurrences from which on further sequences are left out."""


@dataclass(frozen=True)
class TokenizedSequence:
    """One sequence as ids and tokens."""

    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    is_word: tuple[bool, ...]
    """True for tokens that are not special tokens."""
    sense: str | None = None
    """The sense of the ambiguous words of this sequence, if it is known."""


@dataclass(frozen=True)
class Occurrences:
    """All occurrences of all tokens: the token, its sense, and its vector in each layer."""

    words: tuple[str, ...]
    senses: tuple[str | None, ...]
    sequences: tuple[int, ...]
    """The index of the sequence of each occurrence."""
    layers: Mapping[str, Tensor]
    """Vectors [N, D] by the name of the layer: table, layer 1, layer 2, …"""

    def of(self, word: str) -> Occurrences:
        """Returns the occurrences of one word."""
        return self._select([position for position, found in enumerate(self.words) if found == word])

    def with_static_layer(self, name: str, vectors: Mapping[str, Tensor]) -> Occurrences:
        """Returns the occurrences with a layer of static vectors first; words without a static vector are left out."""
        positions = [position for position, word in enumerate(self.words) if word in vectors]
        kept = self._select(positions)
        if not positions:
            return kept
        table = torch.stack([vectors[word] for word in kept.words])
        return replace(kept, layers={name: table, **kept.layers})

    def _select(self, positions: Sequence[int]) -> Occurrences:
        return Occurrences(
            tuple(self.words[position] for position in positions),
            tuple(self.senses[position] for position in positions),
            tuple(self.sequences[position] for position in positions),
            {name: vectors[list(positions)] for name, vectors in self.layers.items()},
        )


def tokenized(inspector: Inspector, examples: Iterable[ExampleLike]) -> Iterator[TokenizedSequence]:
    """Yields the tokenized inputs of examples, as the first stack of the model receives them."""
    for each in examples:
        example = as_example(each)
        row = replace(inspector.reader.tokenize(example), target=())
        source, target = inspector.reader.model_inputs(inspector.reader.batch([row]))
        tokens = source or target
        assert tokens is not None
        ids = tuple(tokens.ids[0].tolist())
        names = tuple(word_of(inspector.reader.tokenizers.source.token(number)) for number in ids)
        yield TokenizedSequence(ids, names, tuple(not is_special_token(number) for number in ids), example.label)


def word_of(token: str) -> str:
    """Strips the marker of a preceding space from a subword token."""
    return token.strip("▁Ġ ") or token


@torch.inference_mode()
def occurrences(model: Model, sequences: Iterable[TokenizedSequence]) -> Occurrences:
    """Collects the vectors of all words of sequences, each run alone."""
    words: list[str] = []
    senses: list[str | None] = []
    numbers: list[int] = []
    found: dict[str, list[Tensor]] = {}
    device = next(model.parameters()).device
    for number, sequence in enumerate(sequences):
        with _layer_outputs(model) as outputs:
            _run(model, TokenBatch.of(torch.tensor([sequence.ids], device=device)))
        positions = [position for position, is_word in enumerate(sequence.is_word) if is_word]
        words += [sequence.tokens[position] for position in positions]
        senses += [sequence.sense] * len(positions)
        numbers += [number] * len(positions)
        for name, vectors_LD in outputs.items():
            found.setdefault(name, []).append(vectors_LD[positions].float().cpu())
        if len(words) >= MAX_OCCURRENCES:
            break
    complete = {name: torch.cat(each) for name, each in found.items() if sum(map(len, each)) == len(words)}
    return Occurrences(tuple(words), tuple(senses), tuple(numbers), complete)


def _run(model: Model, tokens: TokenBatch) -> None:
    if isinstance(model, EncoderDecoder):
        model.encode(tokens)
    elif isinstance(model, DecoderModel):
        model(target=tokens)
    else:
        model(source=tokens)


@contextmanager
def _layer_outputs(model: Model) -> Iterator[dict[str, Tensor]]:
    """The outputs [L, D] of the embedding and of each layer of the first stack, filled by forward hooks."""
    tower: Any = model.decoder if isinstance(model, DecoderModel) else getattr(model, "encoder", None)
    outputs: dict[str, Tensor] = {}
    layers: Sequence[nn.Module] = list(getattr(tower.stack, "layers", ()))
    named = {TABLE: tower.embedding} | {f"layer {number}": layer for number, layer in enumerate(layers, 1)}
    named = named if layers else named | {"last": tower.stack}
    handles = [module.register_forward_hook(_capture_hook(outputs, name)) for name, module in named.items()]
    try:
        yield outputs
    finally:
        for handle in handles:
            handle.remove()


def _capture_hook(outputs: dict[str, Tensor], name: str) -> Callable[[Any, Any, Any], None]:
    def capture(module: Any, inputs: Any, out: Any) -> None:
        # Residuals with several streams between layers have no single vector for each token.
        if isinstance(out, Tensor) and out.dim() == 3 and out.shape[0] == 1:
            outputs[name] = out[0]

    return capture
