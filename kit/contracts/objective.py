"""The contract of an objective: the loss of a model on a batch, the tasks it supports, and how generation starts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from torch import Tensor

from kit.contracts.data import Task
from kit.plugin.component import Component, Options
from kit.sequence.batch import Batch
from kit.sequence.batch_layout import TokenBatch

if TYPE_CHECKING:
    from kit.model.decoding_session import DecodingSession
    from kit.model.families import Model

RowFormat = Literal["seq2seq", "prefix_lm", "classification", "lm_window", "mlm_block"]
"""The format of a batch row. seq2seq: source, end; and start, target, end. prefix_lm: start, source, separator, target,
end in one row, its feature `prefix` true up to the separator. classification: start, sequence, end, and a label.
lm_window: a window of the token stream, one token longer than the model reads, to be shifted. mlm_block: a window as
long as the model reads."""
FEATURES_OF_ROW_FORMAT: Mapping[RowFormat, frozenset[str]] = {
    "seq2seq": frozenset(),
    "prefix_lm": frozenset({"prefix"}),
    "classification": frozenset(),
    "lm_window": frozenset({"document", "position"}),
    "mlm_block": frozenset({"document", "position"}),
}
"""The token features that batches of each row format carry."""


@dataclass(frozen=True)
class Supports:
    """A model family and a data task that an objective trains together."""

    family: str
    """The model's family."""
    task: Task
    """The task of the data."""
    row_format: RowFormat
    """The format of the batch rows."""
    default: bool = False
    """Whether a recipe that names no objective gets this one for this family and task; at most one objective each."""


@dataclass(frozen=True)
class Loss:
    """The loss of one rank's part of a batch: sums over predictions, never means."""

    total: Tensor
    """The loss to minimise, summed over all predictions of this part."""
    num_predictions: int
    """The number of predictions."""
    nll_sum: Tensor
    """Sum of the unsmoothed negative log-likelihood (nats) of the targets; detached."""
    correct: Tensor | None = None
    """The number of correct predictions; only in evaluation mode."""
    rows: Tensor | None = None
    """[rows, 3]: negative log-likelihood, predictions and correct predictions of each row, which sum to the fields
    above; only in evaluation mode. Without it figures have no confidence intervals."""


class Objective(Component, ABC):
    """Computes the loss of a model on a batch; built with its options and the seed of the run.

    Random choices are a function of the seed, the batch's step and each row's index, so that they do not depend on how
    a batch is sharded among processes.
    """

    kind = "objective"

    supports: ClassVar[tuple[Supports, ...]]
    """The families and tasks it trains, with the row format for each."""
    per_token: ClassVar[bool] = True
    """Whether it predicts tokens, with a head that gives logits for every token; else one prediction a row."""
    brings: ClassVar[frozenset[str]] = frozenset()
    """Token features that the objective itself gives the model, for masks that need them."""

    def __init__(self, options: Options, seed: int = 0) -> None:
        self.options = options
        self.seed = seed

    @abstractmethod
    def loss(self, model: Model, batch: Batch) -> Loss:
        """Runs the model on a batch and returns the summed loss."""

    def predicts(self, step: int, index: int, length: int) -> int | None:
        """The number of tokens that a row of `length` tokens predicts in a step; None if the row format decides it."""
        return None

    def begin(self, model: Model, batch: Batch) -> tuple[DecodingSession, TokenBatch] | None:
        """Starts generation: a decoding session, and the prompt tokens that it reads first.

        The rows are training rows, or such rows without their targets; of plain text, its beginning. None where the
        objective trains nothing that is generated.
        """
        return None
