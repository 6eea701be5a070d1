"""Attention as pipes: the largest flow from the last layer to each token of the text (Abnar and Zuidema 2020).

Shapes: Q queries, K keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import PositiveInt
from torch import Tensor

from kit import AttentionMap, AttentionRecord, Drawing, Inspector, KitError, Options, TextProbe
from kit_probe.rollout import step


class FlowOptions(Options):
    """Options of `flow`."""

    use: Literal["flow"] = "flow"
    tokens: PositiveInt = 24
    """The most tokens a text may have; the time grows with their fourth power."""


class FlowProbe(TextProbe):
    """For encoders and decoders; a text that is too long is not drawn."""

    options_type = FlowOptions
    options: FlowOptions
    costly = True

    def draw(self, record: AttentionRecord, inspector: Inspector) -> list[Drawing]:
        """One picture for each stack."""
        pictures = []
        for name, maps in (("encoder", record.of("encoder")), ("decoder", record.of("decoder"))):
            if maps and not record.unseen and len(maps[0].allowed) <= self.options.tokens:
                tokens = record.queries(maps[0]).tokens
                note = "The largest flow, each row divided by its sum; it may count the same pipe for several tokens."
                pictures.append(Drawing(f"flow, {name}", tokens, tokens, flow(maps), note))
        return pictures


def flow(maps: Sequence[AttentionMap]) -> Tensor:
    """[Q, K]: the largest flow from each token of the last layer to each of the text, rows divided by their sums."""
    try:
        import networkx
    except ImportError as error:
        raise KitError("flow needs networkx; type: pip install 'kitformer[inspect]'") from error
    pipes = networkx.DiGraph()
    steps = [step(found) for found in maps]
    for layer, step_QK in enumerate(steps):
        for query, key in step_QK.nonzero().tolist():
            pipes.add_edge((layer + 1, query), (layer, key), capacity=float(step_QK[query, key]))
    size, top = len(steps[0]), len(steps)
    found_QK = torch.zeros(size, size, dtype=torch.float64)
    for query in range(size):
        reached = networkx.descendants(pipes, (top, query))
        for key in range(size):
            if (0, key) in reached:
                found_QK[query, key] = networkx.maximum_flow_value(pipes, (top, query), (0, key))
    return found_QK / found_QK.sum(-1, keepdim=True)
