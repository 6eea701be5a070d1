"""ONNX export, for ONNX Runtime and other engines: the graphs of `torch_export`, for any batch size and length."""

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
from kit_exporter.export_errors import GuardListener, import_or_raise, problem_at
from kit_exporter.graphs import Graph, Run, graphs_of, run
from kit_exporter.logits_check import compare_logits
from kit_exporter.trace import trace

_NODE = re.compile(r"call_function\[target=(?P<operator>[\w.]+)\]")


class OnnxOptions(Options):
    """Options of `onnx`."""

    use: Literal["onnx"] = "onnx"
    tolerance: PositiveFloat = 1e-4
    """The largest difference of logits that is accepted, relative to the largest logit if that is above 1."""


class OnnxExporter(Exporter):
    """Writes `encoder.onnx` and `decoder.onnx`, or `model.onnx` for a model of one tower; checked with onnxruntime."""

    options_type = OnnxOptions
    options: OnnxOptions

    def write(self, subject: Exportable, folder: Path) -> None:
        """Writes one file for each graph."""
        for package in ("onnx", "onnxscript", "onnxruntime"):
            import_or_raise(package)
        programs = trace(subject)
        for graph in graphs_of(subject):
            self._convert(graph, programs[graph.name]).save(folder / f"{graph.name}.onnx")

    def verify(self, subject: Exportable, folder: Path) -> Sequence[ExportCheck]:
        """Runs the files with onnxruntime and compares logits."""
        graphs = graphs_of(subject)
        engines = {graph.name: _engine(folder / f"{graph.name}.onnx", graph) for graph in graphs}
        return [compare_logits(subject, lambda it: run(graphs, engines, it), self.options.tolerance)]

    def _convert(self, graph: Graph, program: ExportedProgram) -> Any:
        try:
            with warnings.catch_warnings(), GuardListener():
                warnings.simplefilter("ignore")
                return torch.onnx.export(
                    program, input_names=list(graph.inputs), output_names=[graph.output], dynamo=True, verbose=False
                )
        except Exception as error:  # several kinds; each means an operator without a translation
            raise RecipeError([problem_at(*_culprit(error, program, graph.module))]) from error


def _culprit(error: BaseException, program: ExportedProgram, module: nn.Module) -> tuple[Part | None, str]:
    """Returns the part that uses an operator without a translation, and a message with the operator."""
    cause: BaseException | None = error
    operator = None
    while cause is not None:
        found = _NODE.search(str(cause)) or re.search(r"(?P<operator>aten[.:]+\w+)", str(cause))
        operator = found["operator"] if found else operator
        cause = cause.__cause__ or cause.__context__
    if operator is None:
        return None, f"cannot be written as ONNX: {str(error).splitlines()[0][:200]}"
    short = operator.replace("::", ".")
    # The translation works on decomposed operators, so the operator is searched for among these.
    with warnings.catch_warnings(), GuardListener():
        warnings.simplefilter("ignore")
        nodes = list(program.run_decompositions().graph.nodes)
    for node in nodes:
        if short in str(node.target):
            for path, _ in reversed(list((node.meta.get("nn_module_stack") or {}).values())):
                part = _module(module, path)
                if part is not None:
                    return part, f"uses {short}, which ONNX has no operator for"
    return None, f"uses {short}, which ONNX has no operator for"


def _module(module: nn.Module, path: str) -> Part | None:
    try:
        found = module.get_submodule(path)
    except AttributeError:
        return None
    return found if isinstance(found, Part) else None


def _engine(file: Path, graph: Graph) -> Run:
    runtime = import_or_raise("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    session = runtime.InferenceSession(file, options, providers=["CPUExecutionProvider"])

    def engine(*inputs: Tensor) -> Tensor:
        given = {name: value.numpy() for name, value in zip(graph.inputs, inputs, strict=True)}
        return torch.from_numpy(session.run([graph.output], given)[0])

    return engine
