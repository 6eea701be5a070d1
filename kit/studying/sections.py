"""The sections of a study file: a base recipe, what is varied, what is kept equal, and what is looked at."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from kit.recipe.section import Section
from kit.slots import MeasureSlot

Seeds: TypeAlias = Annotated[int, Field(ge=1, le=1000)] | Annotated[list[NonNegativeInt], Field(min_length=1)]
Changes: TypeAlias = dict[str, Any]
"""Paths and the values to put there: `model.width: 64`; `study.` in front of a path changes the study itself."""


class AxisSection(Section):
    """One thing that is varied."""

    path: str | None = None
    """The place in the recipe that is varied; left out, each value names its own."""
    values: list[Any] | dict[str, Any]
    """What to put there: a list; or values by label; or, without a path, several paths by label."""

    @model_validator(mode="after")
    def _labelled(self) -> Self:
        if not self.values:
            raise ValueError("an axis needs at least one value")
        if self.path is None:
            if not isinstance(self.values, dict):
                raise ValueError("a list of values needs a path, such as {path: model.width, values: [32, 64]}")
            for label, value in self.values.items():
                if not isinstance(value, dict):
                    raise ValueError(f"'{label}' wants paths with values, such as {label}: {{model.norm: rms}}")
        return self

    def changes(self) -> dict[str, Changes]:
        """What each label sets."""
        if isinstance(self.values, list):
            return {label_of(value): {str(self.path): value} for value in self.values}
        if self.path is not None:
            return {label: {self.path: value} for label, value in self.values.items()}
        return dict(self.values)


class BudgetSection(Section):
    """What every cell has the same amount of, and what is adjusted to make it so."""

    same: Literal["steps", "tokens", "parameters", "flops", "time"] = "steps"
    """steps: as the recipe says. tokens, flops, time: the number of steps is adjusted. parameters: a width is."""
    adjust: str = "model.width"
    """The width that is adjusted where parameters are to be the same."""
    within: PositiveFloat = Field(default=0.05, le=0.5)
    """How far a cell may be from the base, as a share of it."""


class SweepSection(Section):
    """Values of one number, tried for each cell with its first seed; the best on validation is used for all seeds."""

    path: str = "training.optimizer.rate"
    """The place of the number."""
    values: list[float] = Field(min_length=1)
    """What is tried."""


class RangeSection(Section):
    """Where a search may look for one value: a range of numbers, or a few choices."""

    low: float | None = None
    """The least number."""
    high: float | None = None
    """The greatest number."""
    whole: bool = False
    """Whether only whole numbers are meant."""
    log: bool = False
    """Whether each power of ten is as likely as the next."""
    choices: list[Any] | None = None
    """What to choose from, in place of a range."""

    @model_validator(mode="after")
    def _either(self) -> Self:
        if (self.choices is None) == (self.low is None and self.high is None):
            raise ValueError("wanted either choices, or low and high")
        if self.choices is None and (self.low is None or self.high is None or self.low > self.high):
            raise ValueError("wanted low and high, and low not above high")
        if self.choices is not None and not self.choices:
            raise ValueError("wanted at least one choice")
        return self


class SearchSection(Section):
    """Trials proposed by Optuna in place of a grid; machines with the same storage share one search."""

    space: dict[str, RangeSection] = Field(min_length=1)
    """Where to look, by path."""
    trials: PositiveInt = 20
    """How many trials there are, on all machines together."""
    storage: str | None = None
    """Where Optuna keeps them: the URL of a database; left out, a journal file in the study's folder."""
    seed: NonNegativeInt = 0
    """What the proposals depend on."""


class QuickSection(Section):
    """What `--quick` changes, so that the whole study runs in seconds."""

    seeds: Seeds = 1
    """The seeds."""
    changes: Changes = Field(default_factory=dict)
    """Changes to every cell, laid over all others."""
    axes: dict[str, list[str] | dict[str, Changes]] = Field(default_factory=dict)
    """The labels that are kept of an axis; or those labels with changes that are laid over their own."""
    sweep: list[float] | None = Field(default=None, min_length=1)
    """The values that are tried; left out, the first two."""
    trials: PositiveInt = 2
    """The trials of a search."""


class StudySection(Section):
    """One YAML file: a question, the trainings that answer it, and how they are compared."""

    name: str = Field(min_length=1, max_length=100, pattern=r"^[\w][\w.-]*$")
    """What its folder is called."""
    claim: str = ""
    """What is put to the test, in a sentence."""
    setup: str = ""
    """How, in a few sentences: for the page."""
    recipe: str
    """The path of the base recipe, from this file."""
    changes: Changes = Field(default_factory=dict)
    """Changes to the base recipe for all cells."""
    axes: dict[str, AxisSection] = Field(default_factory=dict)
    """What is varied; every combination is a cell."""
    compare: str | None = None
    """The axis whose values are compared with each other; the others are conditions. Left out, the first."""
    base: str | None = None
    """The value of that axis that the others are compared with; left out, the first."""
    seeds: Seeds = 3
    """How many seeds each cell has, or which."""
    budget: BudgetSection = Field(default_factory=BudgetSection)
    """What all cells have the same amount of."""
    sweep: SweepSection | None = None
    """A learning rate for each cell, chosen on validation; left out, the recipe's own."""
    search: SearchSection | None = None
    """Trials in place of axes."""
    metric: str = "loss"
    """What is compared: a figure of the evaluation (loss, accuracy, ...), or of a measure (`speed.train_at_512`)."""
    split: Literal["test", "validation"] = "test"
    """Which examples the metric is taken on; validation where there are no test examples."""
    better: Literal["lower", "higher"] | None = None
    """Which way is up; left out, as the metric says."""
    measures: list[MeasureSlot] = Field(default_factory=list)
    """What else is found out about each cell's model."""
    when: list[Literal["start", "end"]] = Field(default=["end"], min_length=1)
    """When that is: before training, after it, or both; `[start]` alone trains nothing."""
    quick: QuickSection = Field(default_factory=QuickSection)
    """What `--quick` changes."""

    @property
    def trains(self) -> bool:
        """Whether there is any training."""
        return "end" in self.when


def label_of(value: Any) -> str:
    """What a value is called in tables and folders."""
    if isinstance(value, dict):
        use = value.get("use")
        rest = [f"{key}={label_of(item)}" for key, item in value.items() if key != "use"]
        return " ".join([str(use), *rest] if use else rest)
    if isinstance(value, list):
        return ",".join(label_of(item) for item in value) or "none"
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)
