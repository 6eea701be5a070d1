"""ONNX, for ONNX Runtime and other engines: the same graphs as `torch_export`, for batches and lengths of any size."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import PositiveFloat
from torch import Tensor, nn
from torch.export import ExportedProgram

from kit import Exportable, ExportCheck, Exporter, Options, Part, RecipeError
from kit_exporter.blaming import Guards, problem_at
from kit_exporter.comparing import compare_scores
from kit_exporter.graphs import Graph, Run, graphs_of, run
from kit_exporter.missing import imported
from kit_exporter.tracing import trace

_NODE = re.compile(r"call_function\[target=(?P<operator>[\w.]+)\]")


class OnnxOptions(Options):
    """Options of `onnx`."""

    use: Literal["onnx"] = "onnx"
    tolerance: PositiveFloat = 1e-4
    """The largest difference that is accepted, for scores of up to 1; in proportion for larger ones."""


class OnnxExporter(Exporter):
    """Writes `encoder.onnx` and `decoder.onnx`, or `model.onnx` for a model of one side; compared by onnxruntime."""

    options_type = OnnxOptions
    options: OnnxOptions

    def write(self, subject: Exportable, folder: Path) -> None:
        """One file a graph."""
        for package in ("onnx", "onnxscript", "onnxruntime"):
            imported(package)
        programs = trace(subject)
        for graph in graphs_of(subject):
            self._convert(graph, programs[graph.name]).save(folder / f"{graph.name}.onnx")

    def verify(self, subject: Exportable, folder: Path) -> Sequence[ExportCheck]:
        """Run the files with onnxruntime and compare scores."""
        graphs = graphs_of(subject)
        engines = {graph.name: _engine(folder / f"{graph.name}.onnx", graph) for graph in graphs}
        return [compare_scores(subject, lambda it: run(graphs, engines, it), self.options.tolerance)]

    def _convert(self, graph: Graph, program: ExportedProgram) -> Any:
        try:
            with warnings.catch_warnings(), Guards():
                warnings.simplefilter("ignore")
                return torch.onnx.export(
                    program, input_names=list(graph.inputs), output_names=[graph.output], dynamo=True, verbose=False
                )
        except Exception as error:  # it raises errors of several kinds, and each is an operator without a translation
            raise RecipeError([problem_at(*_culprit(error, program, graph.module))]) from error


def _culprit(error: BaseException, program: ExportedProgram, module: nn.Module) -> tuple[Part | None, str]:
    """The part whose operator has no translation, and the operator."""
    cause: BaseException | None = error
    operator = None
    while cause is not None:
        found = _NODE.search(str(cause)) or re.search(r"(?P<operator>aten[.:]+\w+)", str(cause))
        operator = found["operator"] if found else operator
        cause = cause.__cause__ or cause.__context__
    if operator is None:
        return None, f"cannot be written as ONNX: {str(error).splitlines()[0][:200]}"
    short = operator.replace("::", ".")
    # Translated is what larger operators fall apart into, so that is where it stands.
    with warnings.catch_warnings(), Guards():
        warnings.simplefilter("ignore")
        nodes = list(program.run_decompositions().graph.nodes)
    for node in nodes:
        if short in str(node.target):
            for path, _ in reversed(list((node.meta.get("nn_module_stack") or {}).values())):
                part = _module(module, path)
                if part is not None:
                    return part, f"uses {short}, which ONNX has no word for"
    return None, f"uses {short}, which ONNX has no word for"


def _module(module: nn.Module, path: str) -> Part | None:
    try:
        found = module.get_submodule(path)
    except AttributeError:
        return None
    return found if isinstance(found, Part) else None


def _engine(file: Path, graph: Graph) -> Run:
    runtime = imported("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    session = runtime.InferenceSession(file, options, providers=["CPUExecutionProvider"])

    def engine(*inputs: Tensor) -> Tensor:
        given = {name: value.numpy() for name, value in zip(graph.inputs, inputs, strict=True)}
        return torch.from_numpy(session.run([graph.output], given)[0])

    return engine
