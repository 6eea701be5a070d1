"""The contract of a measure: what is found out about a model besides how well it does, as figures and curves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kit.component import Component, Options

if TYPE_CHECKING:
    from kit.contracts.data import Data, Split
    from kit.contracts.objective import Objective
    from kit.contracts.tokenizer import Tokenizer
    from kit.data.batch import Batch
    from kit.model.families import Model
    from kit.recipe.sections import Recipe


@dataclass(frozen=True)
class Subject:
    """What is measured: a model, trained or as it is built, with what it was made for."""

    model: Model
    """In evaluation mode; its parameters may take gradients."""
    recipe: Recipe
    """What it was built from."""
    data: Data
    """What it learns from."""
    objective: Objective
    """What is minimised."""
    tokenizer: Tokenizer
    """How the source is cut into tokens."""
    batches: Callable[[Split, int], Iterable[Batch]]
    """Batches of a split, with so many examples at most; the same ones every time."""
    seed: int = 0
    """What random choices depend on."""


@dataclass(frozen=True)
class Series:
    """A curve: one number over another."""

    name: str
    """What the curve is, in one or two words."""
    x: Sequence[float]
    y: Sequence[float]
    across: str = ""
    """What `x` is, for the axis of a figure."""
    up: str = ""
    """What `y` is."""
    log: bool = False
    """Whether `y` is best drawn on a logarithmic axis."""


@dataclass(frozen=True)
class Measured:
    """What a measure found."""

    figures: Mapping[str, float] = field(default_factory=dict)
    """Single numbers by name."""
    series: Sequence[Series] = ()
    """Curves."""


class Measure(Component, ABC):
    """Looks at a model; built with its options alone. What it draws at random depends on the subject's seed."""

    kind = "measure"

    def __init__(self, options: Options) -> None:
        self.options = options

    @abstractmethod
    def measure(self, subject: Subject) -> Measured:
        """Look; the model is left as it was found."""
