"""torch.export archives, `.pt2`: graphs that run without the kit, for any batch size and length."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Literal

import torch
from pydantic import PositiveFloat

from kit import Exportable, ExportCheck, Exporter, Options
from kit_exporter.graphs import graphs_of, run
from kit_exporter.logits_check import compare_logits
from kit_exporter.trace import engine, trace


class TorchExportOptions(Options):
    """Options of `torch_export`."""

    use: Literal["torch_export"] = "torch_export"
    tolerance: PositiveFloat = 1e-4
    """The largest difference of logits that is accepted, relative to the largest logit if that is above 1."""


class TorchExportExporter(Exporter):
    """Writes `encoder.pt2` and `decoder.pt2`, or `model.pt2` for a model of one tower."""

    options_type = TorchExportOptions
    options: TorchExportOptions

    def write(self, subject: Exportable, folder: Path) -> None:
        """Writes one file for each graph."""
        for name, program in trace(subject).items():
            # In memory first: the C++ writer of torch ends the process when it cannot write to a file.
            archive = BytesIO()
            torch.export.save(program, archive)
            (folder / f"{name}.pt2").write_bytes(archive.getbuffer())

    def verify(self, subject: Exportable, folder: Path) -> Sequence[ExportCheck]:
        """Loads the files and compares logits."""
        graphs = graphs_of(subject)
        engines = {graph.name: engine(torch.export.load(folder / f"{graph.name}.pt2")) for graph in graphs}
        with torch.no_grad():
            return [compare_logits(subject, lambda it: run(graphs, engines, it), self.options.tolerance)]
