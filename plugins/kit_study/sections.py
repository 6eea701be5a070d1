"""The sections of a study file: base recipe, axes, budget, sweep, search and measures."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from kit import MeasureSlot, Section

Seeds: TypeAlias = Annotated[int, Field(ge=1, le=1000)] | Annotated[list[NonNegativeInt], Field(min_length=1)]
Changes: TypeAlias = dict[str, Any]
"""Paths and the values to put there: `model.width: 64`; `study.` in front of a path changes the study itself."""


class AxisSection(Section):
    """One axis of variation."""

    path: str | None = None
    """The path in the recipe that is varied; left out, each value names its own paths."""
    values: list[Any] | dict[str, Any]
    """The values: a list; or by label; or, without a path, changes of several paths by label."""

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
        """Returns the changes of each label."""
        if isinstance(self.values, list):
            return {label_of(value): {str(self.path): value} for value in self.values}
        if self.path is not None:
            return {label: {self.path: value} for label, value in self.values.items()}
        return dict(self.values)


class BudgetSection(Section):
    """The quantity that every cell has equal, and the value that is adjusted for it."""

    same: Literal["steps", "tokens", "parameters", "flops", "time"] = "steps"
    """steps: as the recipe says. tokens, flops, time: the number of steps is adjusted. parameters: a width is."""
    adjust: str = "model.width"
    """The width that is adjusted where parameters are to be the same."""
    within: PositiveFloat = Field(default=0.05, le=0.5)
    """The largest relative difference to the base."""


class SweepSection(Section):
    """Values of one number, tried for each cell with its first seed; the best on validation is used for all seeds."""

    path: str = "training.optimizer.learning_rate"
    """The path of the number."""
    values: list[float] = Field(min_length=1)
    """The values that are tried."""


class RangeSection(Section):
    """The search space of one value: a range of numbers, or choices."""

    low: float | None = None
    """The least number."""
    high: float | None = None
    """The greatest number."""
    whole: bool = False
    """Whether only whole numbers are meant."""
    log: bool = False
    """Whether values are sampled on a logarithmic scale."""
    choices: list[Any] | None = None
    """The choices, in place of a range."""

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
    """The search space, by path."""
    trials: PositiveInt = 20
    """The number of trials, on all machines together."""
    storage: str | None = None
    """The URL of Optuna's database; left out, a journal file in the study's folder."""
    seed: NonNegativeInt = 0
    """The seed of the proposals."""


class QuickSection(Section):
    """The changes of `--quick`, so that the whole study runs in seconds."""

    seeds: Seeds = 1
    """The seeds."""
    changes: Changes = Field(default_factory=dict)
    """Changes to every cell, laid over all others."""
    axes: dict[str, list[str] | dict[str, Changes]] = Field(default_factory=dict)
    """The labels of an axis that are kept; or those labels with changes laid over their own."""
    sweep: list[float] | None = Field(default=None, min_length=1)
    """The swept values; left out, the first two."""
    trials: PositiveInt = 2
    """The trials of a search."""


class StudySection(Section):
    """One YAML file: a question, the trainings that answer it, and how they are compared."""

    name: str = Field(min_length=1, max_length=100, pattern=r"^[\w][\w.-]*$")
    """What its folder is called."""
    claim: str = ""
    """The claim that is tested, in a sentence."""
    setup: str = ""
    """The set-up in a few sentences, for the page."""
    recipe: str
    """The path of the base recipe, from this file."""
    changes: Changes = Field(default_factory=dict)
    """Changes to the base recipe for all cells."""
    axes: dict[str, AxisSection] = Field(default_factory=dict)
    """The axes of variation; every combination is a cell."""
    compare: str | None = None
    """The axis whose values are compared with each other; the others are conditions. Left out, the first."""
    base: str | None = None
    """The value of that axis that the others are compared with; left out, the first."""
    seeds: Seeds = 3
    """The number of seeds of each cell, or a list of seeds."""
    budget: BudgetSection = Field(default_factory=BudgetSection)
    """The quantity that all cells have equal."""
    sweep: SweepSection | None = None
    """A learning rate for each cell, chosen on validation; left out, the recipe's own."""
    search: SearchSection | None = None
    """Trials in place of axes."""
    metric: str = "loss"
    """The compared figure: of the evaluation (loss, accuracy, ...), or of a measure (`speed.train_at_512`)."""
    split: Literal["test", "validation"] = "test"
    """The split of the metric; validation where there is no test split."""
    better: Literal["lower", "higher"] | None = None
    """The better direction; left out, that of the metric."""
    measures: list[MeasureSlot] = Field(default_factory=list)
    """Measures of each cell's model."""
    when: list[Literal["start", "end"]] = Field(default=["end"], min_length=1)
    """When they are taken: before training, after it, or both; `[start]` alone trains nothing."""
    quick: QuickSection = Field(default_factory=QuickSection)
    """The changes of `--quick`."""

    @property
    def trains(self) -> bool:
        """Whether cells are trained."""
        return "end" in self.when


def label_of(value: Any) -> str:
    """Returns the label of a value in tables and folder names."""
    if isinstance(value, dict):
        use = value.get("use")
        rest = [f"{key}={label_of(item)}" for key, item in value.items() if key != "use"]
        return " ".join([str(use), *rest] if use else rest)
    if isinstance(value, list):
        return ",".join(label_of(item) for item in value) or "none"
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)
