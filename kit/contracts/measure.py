"""The contract of a measure: figures and curves about a model besides its quality, for studies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kit.plugin.component import Component, Options

if TYPE_CHECKING:
    from kit.contracts.data import Data, Split
    from kit.contracts.objective import Objective
    from kit.contracts.tokenizer import Tokenizer
    from kit.model.families import Model
    from kit.recipe.sections import Recipe
    from kit.sequence.batch import Batch


@dataclass(frozen=True)
class Subject:
    """The subject of a measure: a model, trained or at initialization, with its recipe, data and objective."""

    model: Model
    """In evaluation mode; its parameters may take gradients."""
    recipe: Recipe
    """The recipe of the model."""
    data: Data
    """The data of the recipe."""
    objective: Objective
    """The objective of the recipe."""
    tokenizer: Tokenizer
    """The tokenizer of the source."""
    batches: Callable[[Split, int], Iterable[Batch]]
    """Batches of a split with at most so many examples; always the same ones."""
    seed: int = 0
    """The seed of random choices."""


@dataclass(frozen=True)
class Series:
    """A curve, y over x."""

    name: str
    """The name of the curve, in one or two words."""
    x: Sequence[float]
    y: Sequence[float]
    across: str = ""
    """The label of the x axis."""
    up: str = ""
    """The label of the y axis."""
    log: bool = False
    """Whether the y axis is logarithmic."""


@dataclass(frozen=True)
class Measured:
    """The result of a measure."""

    figures: Mapping[str, float] = field(default_factory=dict)
    """Figures by name."""
    series: Sequence[Series] = ()
    """Curves."""


class Measure(Component, ABC):
    """Measures a model; built with its options alone. Random choices depend on the subject's seed."""

    kind = "measure"

    def __init__(self, options: Options) -> None:
        self.options = options

    @abstractmethod
    def measure(self, subject: Subject) -> Measured:
        """Measure; the model is unchanged afterwards."""
