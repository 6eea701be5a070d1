"""PyTorch's own format, `.pt2`: graphs that run without the kit, for batches and lengths of any size."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import torch
from pydantic import PositiveFloat

from kit import Exportable, ExportCheck, Exporter, Options
from kit_exporter.comparing import compare_scores
from kit_exporter.graphs import graphs_of, run
from kit_exporter.tracing import engine, trace


class TorchExportOptions(Options):
    """Options of `torch_export`."""

    use: Literal["torch_export"] = "torch_export"
    tolerance: PositiveFloat = 1e-4
    """The largest difference that is accepted, for scores of up to 1; in proportion for larger ones."""


class TorchExportExporter(Exporter):
    """Writes `encoder.pt2` and `decoder.pt2`, or `model.pt2` for a model of one side."""

    options_type = TorchExportOptions
    options: TorchExportOptions

    def write(self, subject: Exportable, folder: Path) -> None:
        """One file a graph."""
        for name, program in trace(subject).items():
            torch.export.save(program, folder / f"{name}.pt2")

    def verify(self, subject: Exportable, folder: Path) -> Sequence[ExportCheck]:
        """Load the files again and compare scores."""
        graphs = graphs_of(subject)
        engines = {graph.name: engine(torch.export.load(folder / f"{graph.name}.pt2")) for graph in graphs}
        with torch.no_grad():
            return [compare_scores(subject, lambda it: run(graphs, engines, it), self.options.tolerance)]
