"""Attention flow: the maximum flow through the layers from each output to each input token (Abnar and Zuidema 2020).

Shapes: Q queries, K keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import PositiveInt
from torch import Tensor

from kit import AttentionMap, AttentionRecord, Drawing, Inspector, KitError, Options, SequenceProbe
from kit_probe.rollout import layer_matrix


class FlowOptions(Options):
    """Options of `flow`."""

    use: Literal["flow"] = "flow"
    tokens: PositiveInt = 24
    """The maximum sequence length; the time grows with its fourth power."""


class FlowProbe(SequenceProbe):
    """For encoders and decoders; a longer sequence is not drawn."""

    options_type = FlowOptions
    options: FlowOptions
    costly = True

    def draw(self, record: AttentionRecord, inspector: Inspector) -> list[Drawing]:
        """One drawing for each stack."""
        drawings = []
        for name, maps in (("encoder", record.of("encoder")), ("decoder", record.of("decoder"))):
            if maps and not record.unseen and len(maps[0].attention_mask) <= self.options.tokens:
                tokens = record.queries(maps[0]).tokens
                note = "The maximum flow, each row divided by its sum; flows to several tokens may share an edge."
                drawings.append(Drawing(f"flow, {name}", tokens, tokens, flow(maps), note))
        return drawings


def flow(maps: Sequence[AttentionMap]) -> Tensor:
    """[Q, K]: the maximum flow from each token of the last layer to each input token, rows divided by their sums."""
    try:
        import networkx
    except ImportError as error:
        raise KitError("flow needs networkx; type: pip install 'kitformer[inspect]'") from error
    graph = networkx.DiGraph()
    matrices_QK = [layer_matrix(found) for found in maps]
    for layer, matrix_QK in enumerate(matrices_QK):
        for query, key in matrix_QK.nonzero().tolist():
            graph.add_edge((layer + 1, query), (layer, key), capacity=float(matrix_QK[query, key]))
    size, top = len(matrices_QK[0]), len(matrices_QK)
    found_QK = torch.zeros(size, size, dtype=torch.float64)
    for query in range(size):
        reached = networkx.descendants(graph, (top, query))
        for key in range(size):
            if (0, key) in reached:
                found_QK[query, key] = networkx.maximum_flow_value(graph, (top, query), (0, key))
    return found_QK / found_QK.sum(-1, keepdim=True)
