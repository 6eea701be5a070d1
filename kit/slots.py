"""A ready annotation for each kind of part that a recipe section, or another part's options, can hold."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from kit.component import Options, Slot

AttentionSlot: TypeAlias = Annotated[Options, Slot("attention")]
PositionSlot: TypeAlias = Annotated[Options, Slot("position")]
NormSlot: TypeAlias = Annotated[Options, Slot("norm")]
ResidualSlot: TypeAlias = Annotated[Options, Slot("residual")]
MaskSlot: TypeAlias = Annotated[Options, Slot("mask")]
FeedforwardSlot: TypeAlias = Annotated[Options, Slot("feedforward")]
EmbeddingSlot: TypeAlias = Annotated[Options, Slot("embedding")]
StackSlot: TypeAlias = Annotated[Options, Slot("stack")]
HeadSlot: TypeAlias = Annotated[Options, Slot("head")]
DataSlot: TypeAlias = Annotated[Options, Slot("data")]
TokenizerSlot: TypeAlias = Annotated[Options, Slot("tokenizer")]
OptimizerSlot: TypeAlias = Annotated[Options, Slot("optimizer")]
ScheduleSlot: TypeAlias = Annotated[Options, Slot("schedule")]
ObjectiveSlot: TypeAlias = Annotated[Options, Slot("objective")]
MetricSlot: TypeAlias = Annotated[Options, Slot("metric")]
SearchSlot: TypeAlias = Annotated[Options, Slot("search")]
ConstraintSlot: TypeAlias = Annotated[Options, Slot("constraint")]
MeasureSlot: TypeAlias = Annotated[Options, Slot("measure")]
RegularizerSlot: TypeAlias = Annotated[Options, Slot("regularizer")]
