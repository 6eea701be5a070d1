"""The contract of an objective: what is minimised, for which models and data, and how an answer is begun."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from torch import Tensor

from kit.component import Component, Options
from kit.contracts.data import Task
from kit.data.batch import Batch
from kit.tokens import Tokens

if TYPE_CHECKING:
    from kit.model.families import Model
    from kit.model.session import Session

Form = Literal["pairs", "prefixed", "texts", "windows", "blocks"]
"""What a row of a batch is. pairs: source, end; and start, target, end. prefixed: start, source, separator, target, end
in one row, the fact `prefix` true up to the separator. texts: start, text, end. windows: a stretch of a stream of
documents, one token longer than the model reads, to be shifted. blocks: a stretch as long as the model reads."""


@dataclass(frozen=True)
class Serves:
    """A kind of model and of data that an objective trains together."""

    family: str
    """The model's family."""
    task: Task
    """What the data's examples are."""
    form: Form
    """What the rows of its batches are to be."""
    default: bool = False
    """Whether this objective is taken for this pair where a recipe names none; one objective a pair may say so."""


@dataclass(frozen=True)
class Loss:
    """What one share of a batch comes to."""

    total: Tensor
    """What is minimised, summed over all predictions of this share."""
    count: int
    """How many predictions there are."""
    nats: Tensor
    """The surprise at the right answers, summed, without smoothing; not differentiated."""
    correct: Tensor | None = None
    """How many predictions were right; only where the model is not being trained."""
    rows: Tensor | None = None
    """[rows, 3]: nats, predictions and right ones of each row of the batch, which sum to those above; only where the
    model is not being trained. Without it there are no intervals around figures."""


class Objective(Component, ABC):
    """Turns a model's scores for a batch into a loss; built with its options and the seed of the run.

    What it chooses at random is a function of the seed, the batch's step and each row's index, so that it does not
    depend on how a batch is shared out among processes.
    """

    kind = "objective"

    serves: ClassVar[tuple[Serves, ...]]
    """What it can train, with what rows."""
    per_token: ClassVar[bool] = True
    """Whether it predicts tokens, with a head that scores every token; else it predicts one thing a row."""
    brings: ClassVar[frozenset[str]] = frozenset()
    """Facts that it tells the model of every token itself, for masks that want them."""

    def __init__(self, options: Options, seed: int = 0) -> None:
        self.options = options
        self.seed = seed

    @abstractmethod
    def loss(self, model: Model, batch: Batch) -> Loss:
        """Run the model on a share of a batch."""

    def predicts(self, step: int, index: int, length: int) -> int | None:
        """How many tokens a row of so many tokens predicts in a step; None where it is what the rows say themselves."""
        return None

    def begin(self, model: Model, batch: Batch) -> tuple[Session, Tokens] | None:
        """A session, and the first tokens for it to read, after which the model writes its answer to each row.

        The rows are those that are trained on, or such rows without their answers; of plain text, its beginning. None
        where this objective trains no answers that are written.
        """
        return None
