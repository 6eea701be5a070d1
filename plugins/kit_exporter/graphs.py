"""The graphs of a model for export: their inputs, their output, and samples as inputs.

An encoder-decoder has two graphs, so that the source is read once while the target grows: `encoder` returns the
encoder output (`memory`) and `decoder` the logits of the next token. Other models have one graph, `model`.
Shapes: B rows, S source tokens, T target tokens, L tokens, D width, V vocabulary or classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from torch import Tensor, nn, ones_like
from torch import bool as boolean

from kit import (
    AttentionContext,
    AttentionObserver,
    BatchLayout,
    BuildContext,
    EncoderDecoder,
    EncoderOutput,
    Exportable,
    ExportSample,
    Model,
    TokenBatch,
)

Run: TypeAlias = Callable[..., Tensor]
"""Runs a graph: its inputs in order, its output."""


@dataclass(frozen=True)
class Graph:
    """One graph of a model."""

    name: str
    module: nn.Module
    inputs: tuple[str, ...]
    """The names of the inputs in order, such as `memory`, `source` and `source_mask`."""
    output: str


class EncoderGraph(nn.Module):
    """Maps the source to the encoder output."""

    def __init__(self, model: EncoderDecoder, features: Sequence[str], observer: AttentionObserver | None) -> None:
        super().__init__()
        self.side = model.encoder  # not the model, so that the file only holds these weights
        self.features = tuple(features)
        self.observer = observer

    def forward(self, source_BS: Tensor, source_mask_BS: Tensor, *features: Tensor) -> Tensor:
        """Returns the encoder output [B, S, D]."""
        tokens = _tokens(source_BS, source_mask_BS, self.features, features)
        memory_BSD: Tensor = self.side(tokens, BatchLayout.of(tokens), observer=self.observer)
        return memory_BSD


class DecoderGraph(nn.Module):
    """Maps the encoder output and the target to logits of the next token."""

    def __init__(self, model: EncoderDecoder, features: Sequence[str], observer: AttentionObserver | None) -> None:
        super().__init__()
        self.side, self.head, self.tied = model.decoder, model.head, model.tied
        self.features = tuple(features)
        self.observer = observer

    def forward(
        self, memory_BSD: Tensor, source_mask_BS: Tensor, target_BT: Tensor, target_mask_BT: Tensor, *features: Tensor
    ) -> Tensor:
        """Returns logits [B, T, V]."""
        tokens = _tokens(target_BT, target_mask_BT, self.features, features)
        layout = BatchLayout.of(tokens)
        source = BatchLayout((memory_BSD.shape[0], memory_BSD.shape[1]), memory_BSD.device, source_mask_BS, False)
        x = self.side(tokens, layout, EncoderOutput(memory_BSD, source), observer=self.observer)
        logits: Tensor = self.head(x, layout, self.side.embedding if self.tied else None)
        return logits


class ModelGraph(nn.Module):
    """Maps tokens to logits, in a model of one tower."""

    def __init__(self, model: Model, features: Sequence[str], observer: AttentionObserver | None) -> None:
        super().__init__()
        self.model = model
        self.features = tuple(features)
        self.observer = observer

    def forward(self, tokens_BL: Tensor, padding_mask_BL: Tensor, *features: Tensor) -> Tensor:
        """Returns logits [B, L, V], or [B, V] if the head classifies sequences."""
        tokens = _tokens(tokens_BL, padding_mask_BL, self.features, features)
        logits: Tensor = self.model(tokens, observer=self.observer)
        return logits


class EagerObserver(AttentionObserver):
    """Records nothing: while attention is observed, variants compute it eagerly, in a form that can be traced."""

    def weights(self, build_context: BuildContext, weights: Tensor, context: AttentionContext) -> None:
        """Ignores attention weights."""

    def heads(self, build_context: BuildContext, out: Tensor) -> Tensor:
        """Returns head outputs unchanged."""
        return out

    def without_weights(self, build_context: BuildContext, reason: str) -> None:
        """Ignores attention weights."""


def graphs_of(subject: Exportable, observer: AttentionObserver | None = None) -> list[Graph]:
    """Returns the graphs of a model in the order in which they run."""
    model, features = subject.model, subject.features
    if not isinstance(model, EncoderDecoder):
        side = "source" if hasattr(model, "encoder") else "target"
        known = features.get("encoder" if side == "source" else "decoder", ())
        return [Graph("model", ModelGraph(model, known, observer), _names(side, known), "logits")]
    source, target = features.get("encoder", ()), features.get("decoder", ())
    decoder = ("memory", "source_mask", *_names("target", target))
    return [
        Graph("encoder", EncoderGraph(model, source, observer), _names("source", source), "memory"),
        Graph("decoder", DecoderGraph(model, target, observer), decoder, "logits"),
    ]


def inputs_of(sample: ExportSample) -> dict[str, Tensor]:
    """Returns the tensors of a sample by input name."""
    values: dict[str, Tensor] = {}
    for side, tokens in (("source", sample.source), ("target", sample.target)):
        if tokens is not None:
            padding_mask = ones_like(tokens.ids, dtype=boolean) if tokens.padding_mask is None else tokens.padding_mask
            values |= {side: tokens.ids, f"{side}_mask": padding_mask}
            values |= {f"{side}_{name}": feature for name, feature in tokens.features.items()}
    return values


def run(graphs: Sequence[Graph], engines: Mapping[str, Run], sample: ExportSample) -> Tensor:
    """Runs the graphs one after the other and returns the logits of a sample."""
    values = inputs_of(sample)
    for graph in graphs:
        values[graph.output] = engines[graph.name](*(values[name] for name in graph.inputs))
    return values[graphs[-1].output]


def _names(side: str, features: Sequence[str]) -> tuple[str, ...]:
    return (side, f"{side}_mask", *(f"{side}_{name}" for name in features))


def _tokens(ids: Tensor, padding_mask: Tensor, names: Sequence[str], features: Sequence[Tensor]) -> TokenBatch:
    # Padding may be anywhere: batches of prompts are padded on the left.
    return TokenBatch(ids, padding_mask, dict(zip(names, features, strict=True)), right_padded=False)
