"""Traces graphs with torch.export for any batch size and length; parts that cannot be traced are named."""

from __future__ import annotations

import re
import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from kit import Exportable, ExportSample, Position, RecipeError, TokenBatch
from kit_exporter.export_errors import GuardListener, part_in, problem_at
from kit_exporter.graphs import EagerObserver, Graph, Run, graphs_of, inputs_of

ROWS, SOURCE, TARGET = 3, 7, 5
"""Sizes of the traced batch: all different, so that torch does not take two for the same."""


def trace(subject: Exportable) -> dict[str, ExportedProgram]:
    """Traces every graph of a model; raises RecipeError with the part that cannot be traced.

    Code that depends on the length may still have one form for all lengths up to that of the model, or one form while
    attention is observed. The first of these attempts that succeeds is taken.
    """
    attempts = [(None, False), (None, True), (EagerObserver(), True)]
    refused: RecipeError | None = None
    for observer, bounded in attempts:
        try:
            return _trace(subject, graphs_of(subject, observer), bounded)
        except RecipeError as error:
            refused = error
    assert refused is not None
    raise refused


def engine(program: ExportedProgram) -> Run:
    """Returns a traced program as a function."""
    module = program.module()
    return lambda *inputs: module(*inputs)


def _trace(subject: Exportable, graphs: list[Graph], bounded: bool) -> dict[str, ExportedProgram]:
    values = inputs_of(_example(subject))
    dims = _dims(subject, bounded)
    programs = {}
    for graph in graphs:
        inputs = tuple(values[name] for name in graph.inputs)
        shapes = [dims["source" if name == "memory" else name.partition("_")[0]] for name in graph.inputs]
        guards = GuardListener()
        try:
            with torch.no_grad(), warnings.catch_warnings(), guards:
                warnings.simplefilter("ignore")
                values[graph.output] = graph.module(*inputs)
                dynamic = _arguments(graph, shapes)
                programs[graph.name] = torch.export.export(graph.module, inputs, dynamic_shapes=dynamic)
        except Exception as error:  # torch raises many kinds; each means that the graph cannot be traced
            part, where = guards.found or (part_in(error), _first_line(error))
            message = f"cannot be traced for batches and lengths of any size: {where}"
            raise RecipeError([problem_at(part, message)]) from error
    return programs


def _first_line(error: Exception) -> str:
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return re.sub(r"\s+", " ", f"{type(error).__name__}: {line}")[:200]


def _dims(subject: Exportable, bounded: bool) -> dict[str, dict[int, Any]]:
    rows = Dim("rows", min=1)
    found = {}
    for name, side in (("source", "encoder"), ("target", "decoder")):
        longest = subject.length if bounded else _longest(getattr(subject.model, side, None))
        found[name] = {0: rows, 1: Dim(f"{name}_length", min=1, max=longest)}
    return found


def _longest(side: Any) -> int | None:
    """Returns the longest sequence that the positions of a tower allow."""
    modules = side.modules() if isinstance(side, nn.Module) else ()
    lengths = [each.longest for each in modules if isinstance(each, Position) and each.longest is not None]
    return min(lengths, default=None)


def _arguments(graph: Graph, shapes: list[dict[int, Any]]) -> tuple[Any, ...]:
    """Groups dynamic shapes by argument: what a module takes as *features is one argument."""
    named = len(shapes) - len(getattr(graph.module, "features", ()))
    return (*shapes[:named], *([tuple(shapes[named:])] if len(shapes) > named else []))


def _example(subject: Exportable) -> ExportSample:
    """Returns the padded batch that is traced."""
    first = subject.samples[-1]
    return ExportSample(_resized(first.source, SOURCE), _resized(first.target, TARGET))


def _resized(tokens: TokenBatch | None, length: int) -> TokenBatch | None:
    if tokens is None:
        return None
    ids = _tiled(tokens.ids, length)
    padding_mask = torch.ones_like(ids, dtype=torch.bool)
    padding_mask[1:, -1] = False
    return TokenBatch(
        ids,
        padding_mask,
        {name: _tiled(feature, length) for name, feature in tokens.features.items()},
        right_padded=True,
    )


def _tiled(x_BL: Tensor, length: int) -> Tensor:
    repeated: Tensor = x_BL.repeat(ROWS, length)
    return repeated[:ROWS, :length].contiguous()
