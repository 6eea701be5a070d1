"""The sections that say how a model is trained: how long, on what, with which parts, and what is kept."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from kit.recipe.section import Section
from kit.slots import MetricSlot, ObjectiveSlot, OptimizerSlot, ScheduleSlot, TokenizerSlot


class TokenizerPair(Section):
    """A tokenizer for each side of a pair; one that is shared is written in place of this."""

    source: TokenizerSlot
    """How the source is cut into tokens."""
    target: TokenizerSlot
    """How the target is cut into tokens."""


class AverageSection(Section):
    """The weights that are kept at the end are an average: either of these."""

    ema: float | None = Field(default=None, gt=0.0, lt=1.0)
    """A moving average over the steps: how much of it stays at each, such as 0.999; less at first, when it is young."""
    last: int | None = Field(default=None, ge=2, le=100)
    """The mean of so many of the newest checkpoints, as they come every `checkpoint_every` steps and at the end; a new
    best or an interruption adds none (Vaswani et al. 2017, section 6.1)."""

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.ema is None) == (self.last is None):
            raise ValueError("either ema or last is wanted, such as {ema: 0.999} or {last: 5}")
        return self


class TrainingSection(Section):
    """How the model is trained. The global batch, the order of the data and the seed are the same on any machine."""

    steps: PositiveInt
    """How many updates."""
    batch_tokens: PositiveInt
    """The most tokens in the batch of an update, padding counted, on all processes together."""
    optimizer: OptimizerSlot | None = None
    """What turns gradients into updates; left out, the installed default."""
    schedule: ScheduleSlot | None = None
    """How the rate changes over the steps; left out, the installed default."""
    objective: ObjectiveSlot | None = None
    """What is minimised; left out, what suits the model's family and the data."""
    seed: NonNegativeInt = Field(default=0, le=2**32 - 1)
    """What the first weights, the order of the data and dropout depend on."""
    clip: PositiveFloat | None = 1.0
    """The largest norm of the gradient; longer ones are shortened to it. null for none."""
    accumulate: PositiveInt = 1
    """How many pieces a batch is computed in, one after another, to save memory; the numbers stay the same."""
    workers: NonNegativeInt = 0
    """Processes that prepare batches beside the training; 0 prepares them in it."""

    metrics: list[MetricSlot] = Field(default_factory=list)
    """What is measured on held-out data, besides the loss."""
    validate_every: PositiveInt = 500
    """Steps between two measurements on the validation split."""
    validation_examples: PositiveInt = 1000
    """How many examples, or windows of text, are measured each time; the same ones throughout."""
    metric: str = "loss"
    """What decides which checkpoint is best: loss, or the name of one of the metrics."""
    patience: PositiveInt | None = None
    """Training ends after so many measurements in a row without a new best; null for never."""

    checkpoint_every: PositiveInt = 500
    """Steps between two checkpoints; a new best is kept as well."""
    keep: PositiveInt = 2
    """How many of the newest checkpoints are kept, besides the best and those that an average needs."""
    average: AverageSection | None = None
    """Whether the weights that are kept at the end are an average: {ema: 0.999} or {last: 5}."""

    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    """What the model computes in; weights stay in float32."""
    accelerator: Literal["auto", "cpu", "gpu", "mps"] = "auto"
    """What it runs on; auto takes a GPU where there is one."""
    devices: PositiveInt = 1
    """How many of them on each node."""
    nodes: PositiveInt = 1
    """How many machines."""
    strategy: Literal["auto", "ddp", "fsdp"] = "auto"
    """How many devices share the work: ddp keeps the whole model on each, fsdp shards it; auto is ddp where needed."""
    tensor: PositiveInt = 1
    """How many processes of a node share each layer, where its parts allow; needs strategy: fsdp."""
    timeout: PositiveFloat = 120.0
    """Seconds after which a process that is missing or stuck is named and the others end, where there are many."""
