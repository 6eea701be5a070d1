"""A model as graphs of tensors: what goes into each, what comes out, and a sample as their inputs.

An encoder-decoder is two graphs, so that the source is read once and the target grows: `encoder` gives the memory, and
`decoder` the scores of the token after each one. A model of one side is one graph, `model`.
Shapes: B rows, S source tokens, T target tokens, D width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from torch import Tensor, nn, ones_like
from torch import bool as boolean

from kit import EncoderDecoder, Exportable, ExportSample, Layout, Memory, Model, Scope, Site, Tokens, Watcher

Run: TypeAlias = Callable[..., Tensor]
"""A graph that can be run: its inputs in order, its output."""


@dataclass(frozen=True)
class Graph:
    """One graph of a model."""

    name: str
    module: nn.Module
    inputs: tuple[str, ...]
    """`source`, `source_valid`, ... in the order in which the module takes them; the name of a side begins each."""
    output: str


class EncoderGraph(nn.Module):
    """Source to memory."""

    def __init__(self, model: EncoderDecoder, facts: Sequence[str], watcher: Watcher | None) -> None:
        super().__init__()
        self.side = model.encoder  # alone, so that a file holds no weights but those it needs
        self.facts = tuple(facts)
        self.watcher = watcher

    def forward(self, source_BS: Tensor, source_valid_BS: Tensor, *facts: Tensor) -> Tensor:
        """[B, S, D]."""
        tokens = _tokens(source_BS, source_valid_BS, self.facts, facts)
        memory_BSD: Tensor = self.side(tokens, Layout.of(tokens), watcher=self.watcher)
        return memory_BSD


class DecoderGraph(nn.Module):
    """Memory and target to scores of the token after each."""

    def __init__(self, model: EncoderDecoder, facts: Sequence[str], watcher: Watcher | None) -> None:
        super().__init__()
        self.side, self.head, self.tied = model.decoder, model.head, model.tied
        self.facts = tuple(facts)
        self.watcher = watcher

    def forward(
        self, memory_BSD: Tensor, source_valid_BS: Tensor, target_BT: Tensor, target_valid_BT: Tensor, *facts: Tensor
    ) -> Tensor:
        """[B, T, choices]."""
        tokens = _tokens(target_BT, target_valid_BT, self.facts, facts)
        layout = Layout.of(tokens)
        source = Layout((memory_BSD.shape[0], memory_BSD.shape[1]), memory_BSD.device, source_valid_BS, False)
        x = self.side(tokens, layout, Memory(memory_BSD, source), watcher=self.watcher)
        scores: Tensor = self.head(x, layout, self.side.embedding if self.tied else None)
        return scores


class ModelGraph(nn.Module):
    """Tokens to scores, in a model of one side."""

    def __init__(self, model: Model, facts: Sequence[str], watcher: Watcher | None) -> None:
        super().__init__()
        self.model = model
        self.facts = tuple(facts)
        self.watcher = watcher

    def forward(self, tokens_BL: Tensor, valid_BL: Tensor, *facts: Tensor) -> Tensor:
        """[B, L, choices], or [B, choices] where the head scores texts."""
        tokens = _tokens(tokens_BL, valid_BL, self.facts, facts)
        scores: Tensor = self.model(tokens, watcher=self.watcher)
        return scores


class Quiet(Watcher):
    """Watches without a word: attentions that take short cuts then go step by step, in a form that has one shape."""

    def weights(self, site: Site, weights: Tensor, scope: Scope) -> None:
        """Nothing."""

    def heads(self, site: Site, out: Tensor) -> Tensor:
        """As they are."""
        return out

    def without_weights(self, site: Site, reason: str) -> None:
        """Nothing."""


def graphs_of(subject: Exportable, watcher: Watcher | None = None) -> list[Graph]:
    """The graphs of a model, in the order in which they run."""
    model, facts = subject.model, subject.facts
    if not isinstance(model, EncoderDecoder):
        side = "source" if hasattr(model, "encoder") else "target"
        known = facts.get("encoder" if side == "source" else "decoder", ())
        return [Graph("model", ModelGraph(model, known, watcher), _names(side, known), "scores")]
    source, target = facts.get("encoder", ()), facts.get("decoder", ())
    decoder = ("memory", "source_valid", *_names("target", target))
    return [
        Graph("encoder", EncoderGraph(model, source, watcher), _names("source", source), "memory"),
        Graph("decoder", DecoderGraph(model, target, watcher), decoder, "scores"),
    ]


def inputs_of(sample: ExportSample) -> dict[str, Tensor]:
    """Everything that graphs can ask for, by name."""
    values: dict[str, Tensor] = {}
    for side, tokens in (("source", sample.source), ("target", sample.target)):
        if tokens is not None:
            valid = ones_like(tokens.ids, dtype=boolean) if tokens.valid is None else tokens.valid
            values |= {side: tokens.ids, f"{side}_valid": valid}
            values |= {f"{side}_{name}": fact for name, fact in tokens.facts.items()}
    return values


def run(graphs: Sequence[Graph], engines: Mapping[str, Run], sample: ExportSample) -> Tensor:
    """The scores of a sample, one graph after the other."""
    values = inputs_of(sample)
    for graph in graphs:
        values[graph.output] = engines[graph.name](*(values[name] for name in graph.inputs))
    return values[graphs[-1].output]


def _names(side: str, facts: Sequence[str]) -> tuple[str, ...]:
    return (side, f"{side}_valid", *(f"{side}_{name}" for name in facts))


def _tokens(ids: Tensor, valid: Tensor, names: Sequence[str], facts: Sequence[Tensor]) -> Tokens:
    # Padding may stand anywhere: who batches prompts for a language model pads on the left.
    return Tokens(ids, valid, dict(zip(names, facts, strict=True)), right_padded=False)
