"""Exporter contract: writes a trained model for another inference engine and compares their results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kit.errors import Problem
from kit.plugin.component import Component
from kit.sequence.batch_layout import TokenBatch

if TYPE_CHECKING:
    from kit.model.families import Model


@dataclass(frozen=True)
class ExportSample:
    """A batch to compare an exported model on; no sequence is longer than the model allows."""

    source: TokenBatch | None = None
    """The input of an encoder."""
    target: TokenBatch | None = None
    """The input of a decoder, from the start token on."""


@dataclass(frozen=True)
class Exportable:
    """A trained model with what an exporter needs beside it."""

    model: Model
    """In evaluation mode, on the CPU."""
    samples: Sequence[ExportSample]
    """Batches of several sizes and lengths, with padding, to compare results on."""
    symbols: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The written form of each token id, by tower: encoder and decoder; two ids may have the same."""
    features: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The names of the token features that each tower reads beside ids, such as `document`."""
    length: int = 512
    """The longest sequence that the model is made for."""
    lock: Path | None = None
    """The lock file of the run, if the model comes from a run."""


@dataclass(frozen=True)
class ExportCheck:
    """One comparison of the exported model with the model itself."""

    what: str
    """What was compared, such as `scores of 14 texts in 4 batches`."""
    difference: float
    """The largest difference."""
    limit: float
    """The largest difference that is accepted."""

    @property
    def passed(self) -> bool:
        """Whether the difference is within the limit; NaN never is."""
        return self.difference <= self.limit


class Exporter(Component, ABC):
    """Writes a model into a folder; built with its options alone.

    A model that the other engine cannot run is refused: by `objections` before anything is written, or by a
    `RecipeError` that `write` raises. Each problem names the part, and its path is the slot of the part.
    """

    kind = "exporter"

    def __init__(self, options: Any) -> None:
        self.options: Any = options

    def objections(self, subject: Exportable) -> Iterable[Problem]:
        """Returns the reasons against an export that are known without trying."""
        return ()

    @abstractmethod
    def write(self, subject: Exportable, folder: Path) -> None:
        """Writes the model into an existing empty folder."""

    @abstractmethod
    def verify(self, subject: Exportable, folder: Path) -> Sequence[ExportCheck]:
        """Loads the exported model as its users will, and compares it with the model on every sample."""
