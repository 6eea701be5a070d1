"""Traces graphs with torch.export for batches and lengths of any size; what cannot be traced is named with its slot."""

from __future__ import annotations

import re
import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from kit import Exportable, ExportSample, Position, RecipeError, Tokens
from kit_exporter.blaming import Guards, part_in, problem_at
from kit_exporter.graphs import Graph, Quiet, Run, graphs_of, inputs_of

ROWS, SOURCE, TARGET = 3, 7, 5
"""Sizes of the batch that is traced: all different, so that no two are taken for one."""


def trace(subject: Exportable) -> dict[str, ExportedProgram]:
    """Every graph by its name; raises RecipeError with the part that stands in the way.

    A part that decides by the length of a text may still have one form for all texts up to the model's length, or the
    form that a watcher sees. The first of these that can be traced is taken.
    """
    attempts = [(None, False), (None, True), (Quiet(), True)]
    refused: RecipeError | None = None
    for watcher, bounded in attempts:
        try:
            return _trace(subject, graphs_of(subject, watcher), bounded)
        except RecipeError as error:
            refused = error
    assert refused is not None
    raise refused


def engine(program: ExportedProgram) -> Run:
    """A program that can be run."""
    module = program.module()
    return lambda *inputs: module(*inputs)


def _trace(subject: Exportable, graphs: list[Graph], bounded: bool) -> dict[str, ExportedProgram]:
    values = inputs_of(_example(subject))
    dims = _dims(subject, bounded)
    programs = {}
    for graph in graphs:
        given = tuple(values[name] for name in graph.inputs)
        shapes = [dims["source" if name == "memory" else name.partition("_")[0]] for name in graph.inputs]
        guards = Guards()
        try:
            with torch.no_grad(), warnings.catch_warnings(), guards:
                warnings.simplefilter("ignore")
                values[graph.output] = graph.module(*given)
                varied = _arguments(graph, shapes)
                programs[graph.name] = torch.export.export(graph.module, given, dynamic_shapes=varied)
        except Exception as error:  # torch raises many kinds, and each means that this graph has no fixed form
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
    """The longest text that the positions of a side can serve."""
    modules = side.modules() if isinstance(side, nn.Module) else ()
    lengths = [each.longest for each in modules if isinstance(each, Position) and each.longest is not None]
    return min(lengths, default=None)


def _arguments(graph: Graph, shapes: list[dict[int, Any]]) -> tuple[Any, ...]:
    """Shapes as torch wants them: what a module takes as *facts is one argument."""
    named = len(shapes) - len(getattr(graph.module, "facts", ()))
    return (*shapes[:named], *([tuple(shapes[named:])] if len(shapes) > named else []))


def _example(subject: Exportable) -> ExportSample:
    """A batch with padding."""
    first = subject.samples[-1]
    return ExportSample(_cut(first.source, SOURCE), _cut(first.target, TARGET))


def _cut(tokens: Tokens | None, length: int) -> Tokens | None:
    if tokens is None:
        return None
    ids = _grown(tokens.ids, length)
    valid = torch.ones_like(ids, dtype=torch.bool)
    valid[1:, -1] = False
    return Tokens(ids, valid, {name: _grown(fact, length) for name, fact in tokens.facts.items()}, right_padded=True)


def _grown(x_BL: Tensor, length: int) -> Tensor:
    repeated: Tensor = x_BL.repeat(ROWS, length)
    return repeated[:ROWS, :length].contiguous()
