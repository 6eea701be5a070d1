"""The contract of an exporter: a trained model written for another engine, and compared with what it was made from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kit.component import Component
from kit.errors import Problem
from kit.tokens import Tokens

if TYPE_CHECKING:
    from kit.model.families import Model


@dataclass(frozen=True)
class ExportSample:
    """A batch of texts to try an exported model with, none of them longer than the model is made for."""

    source: Tokens | None = None
    """What an encoder reads."""
    target: Tokens | None = None
    """What a decoder has written, from the start token on."""


@dataclass(frozen=True)
class Exportable:
    """A trained model, and what an exporter needs to know of it."""

    model: Model
    """In evaluation mode, on the CPU."""
    samples: Sequence[ExportSample]
    """Batches of several sizes and lengths, with padding, for comparing."""
    symbols: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """How each token id is written, by side: encoder and decoder; two ids may be written alike."""
    facts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What each side wants to be told of every token besides its id, such as its document."""
    length: int = 512
    """The longest text the model is made for."""
    lock: Path | None = None
    """What the run was made with, where the model comes from a run."""


@dataclass(frozen=True)
class ExportCheck:
    """One comparison of what was written with the model itself."""

    what: str
    """What was compared, on how much, such as `scores of 14 texts in 4 batches`."""
    difference: float
    """The largest difference that was seen."""
    limit: float
    """The largest that is accepted."""

    @property
    def passed(self) -> bool:
        """Whether it is small enough; what is not a number never is."""
        return self.difference <= self.limit


class Exporter(Component, ABC):
    """Writes a model into a folder; built with its options alone.

    A model that the other engine cannot express is refused: by `objections` before anything is written, or by a
    `RecipeError` that `write` raises. Each problem names the part, and its path is the slot that the part fills.
    """

    kind = "exporter"

    def __init__(self, options: Any) -> None:
        self.options: Any = options

    def objections(self, subject: Exportable) -> Iterable[Problem]:
        """What stands in the way, as far as it can be told without trying."""
        return ()

    @abstractmethod
    def write(self, subject: Exportable, folder: Path) -> None:
        """Write the model into a folder that is there and empty."""

    @abstractmethod
    def verify(self, subject: Exportable, folder: Path) -> Sequence[ExportCheck]:
        """Load what was written as its users will, and compare it with the model on every sample."""
