"""A folder that is a run by itself: weights as safetensors, the recipe, the lock and the tokenizer; no checkpoints."""

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
from kit_exporter.comparing import compare_scores, scores_of

WEIGHTS = "weights.safetensors"


class SafetensorsOptions(Options):
    """Options of `safetensors`."""

    use: Literal["safetensors"] = "safetensors"
    numbers: Literal["float32", "float16", "bfloat16"] = "float32"
    """How weights are stored: as they are, or in half the room; they are float32 again once they are loaded."""
    tolerance: PositiveFloat | None = None
    """The largest difference that is accepted, for scores of up to 1; left out, none for float32, 0.2 otherwise."""


class SafetensorsExporter(Exporter):
    """What is written can be opened, evaluated, served and exported as the run itself."""

    options_type = SafetensorsOptions
    options: SafetensorsOptions

    def write(self, subject: Exportable, folder: Path) -> None:
        """The weights that are in use, and what the run was made with."""
        kind: torch.dtype = getattr(torch, self.options.numbers)
        small: dict[int, Tensor] = {}  # a tensor with two names stays one
        tensors = {}
        for name, tensor in subject.model.state_dict().items():
            shrinks = tensor.is_floating_point() and tensor.dtype == torch.float32
            tensors[name] = small.setdefault(tensor.data_ptr(), tensor.to(kind)) if shrinks else tensor
        replace_tensors(folder / WEIGHTS, tensors)
        if subject.lock is not None:
            shutil.copyfile(subject.lock, folder / "lock.json")

    def verify(self, subject: Exportable, folder: Path) -> Sequence[ExportCheck]:
        """Load the weights into another model and compare scores."""
        other = copy.deepcopy(subject.model)
        for parameter in other.parameters():
            parameter.data = torch.full_like(parameter, float("nan"))
        other.load_state_dict(read_tensors(folder / WEIGHTS))
        again = Exportable(other, subject.samples)

        def score(sample: ExportSample) -> Tensor:
            return scores_of(again, sample)[0]

        chosen = self.options.tolerance
        tolerance = (0.0 if self.options.numbers == "float32" else 0.2) if chosen is None else chosen
        return [compare_scores(subject, score, tolerance)]
