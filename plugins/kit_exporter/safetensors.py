"""Safetensors export: a run folder with weights, recipe, lock and tokenizer, without checkpoints."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import torch
from pydantic import PositiveFloat
from torch import Tensor

from kit import Exportable, ExportCheck, Exporter, ExportSample, Options, read_tensors, replace_tensors
from kit_exporter.logits_check import compare_logits, logits_of

WEIGHTS = "weights.safetensors"


class SafetensorsOptions(Options):
    """Options of `safetensors`."""

    use: Literal["safetensors"] = "safetensors"
    numbers: Literal["float32", "float16", "bfloat16"] = "float32"
    """The dtype of stored weights; they are float32 again once they are loaded."""
    tolerance: PositiveFloat | None = None
    """The largest difference of logits that is accepted; left out, 0 for float32 and 0.2 otherwise."""


class SafetensorsExporter(Exporter):
    """Writes a folder that can be opened, evaluated, served and exported as the run itself."""

    options_type = SafetensorsOptions
    options: SafetensorsOptions

    def write(self, subject: Exportable, folder: Path) -> None:
        """Writes the weights and the lock of the run."""
        dtype: torch.dtype = getattr(torch, self.options.numbers)
        converted: dict[int, Tensor] = {}  # shared tensors stay shared
        tensors = {}
        for name, tensor in subject.model.state_dict().items():
            shrinks = tensor.is_floating_point() and tensor.dtype == torch.float32
            tensors[name] = converted.setdefault(tensor.data_ptr(), tensor.to(dtype)) if shrinks else tensor
        replace_tensors(folder / WEIGHTS, tensors)
        if subject.lock is not None:
            shutil.copyfile(subject.lock, folder / "lock.json")

    def verify(self, subject: Exportable, folder: Path) -> Sequence[ExportCheck]:
        """Loads the weights into a copy of the model and compares logits."""
        other = copy.deepcopy(subject.model)
        for parameter in other.parameters():
            parameter.data = torch.full_like(parameter, float("nan"))
        other.load_state_dict(read_tensors(folder / WEIGHTS))
        again = Exportable(other, subject.samples)

        def compute(sample: ExportSample) -> Tensor:
            return logits_of(again, sample)[0]

        chosen = self.options.tolerance
        tolerance = (0.0 if self.options.numbers == "float32" else 0.2) if chosen is None else chosen
        return [compare_logits(subject, compute, tolerance)]
