"""Components: a class of a kind, the pydantic options that a recipe gives it, and the context it is built in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol, TypeAlias, get_args

from pydantic import BaseModel, ConfigDict

from kit.errors import Problem

if TYPE_CHECKING:
    from typing import Self


class Options(BaseModel):
    """The options of a component as a recipe spells them: frozen, unknown keys refused, docstrings as documentation.

    A subclass gives its name as a literal: `use: Literal["window"] = "window"`.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False, hide_input_in_errors=True
    )

    use: str
    """The name of the component."""


@dataclass(frozen=True)
class Slot:
    """Marks a field of a recipe section, or of a component's own options, that takes any component of one kind.

    Written `norm: Annotated[Options, Slot("norm")]`; `kit` has an alias for each kind, such as `NormSlot`.
    """

    kind: str


@dataclass(frozen=True)
class Dims:
    """The sizes that a component is built for."""

    width: int
    """The model width (hidden size)."""
    memory: int | None = None
    """The width of the encoder output in cross-attention; None elsewhere."""
    heads: int = 1
    """The number of attention heads."""
    head_dim: int = 0
    """The width of one query or key."""
    vocabulary: int | None = None
    """The vocabulary size, for embeddings and output heads."""
    symbols: tuple[str, ...] | None = None
    """The string of each token id, for embeddings that use it; None until a tokenizer is known."""
    length: int = 512
    """The maximum sequence length."""
    dropout: float = 0.0
    """The dropout probability."""


class Builder(Protocol):
    """Builds and checks components from their options; `ModelBuilder` is one."""

    def build(self, options: Options, dims: Dims, build_context: BuildContext) -> Any:
        """Build the component that these options describe."""

    def component_of(self, options: Options) -> type[Component]:
        """The component class that these options belong to."""


@dataclass(frozen=True)
class BuildContext:
    """The position of a component in the model, and the builder of the components that it contains."""

    builder: Builder = field(repr=False, compare=False)
    path: tuple[str | int, ...] = ()
    """The path in the recipe, for messages."""
    stack: str = ""
    """The stack: encoder or decoder."""
    role: str = ""
    """The slot: attention, cross_attention, feedforward, ..."""
    layer: int = 0
    """The index of the layer in its stack, from 0."""
    depth: int = 1
    """The number of layers of that stack."""
    depths: Mapping[str, int] = field(default_factory=dict, repr=False, compare=False)
    """The number of layers of each stack of the model, by name, for initial values that depend on the total depth."""
    sublayers: tuple[str, ...] = ()
    """The sublayers of its layer, in order: attention, feedforward, ..."""
    causal: bool = False
    """Whether the stack is autoregressive."""
    kept_heads: Mapping[str, Sequence[int]] = field(default_factory=dict, repr=False, compare=False)
    """The kept heads of pruned attentions, by `BuildContext.name`."""
    inherited: Mapping[str, Options] = field(default_factory=dict, repr=False, compare=False)
    """Components chosen once for the whole model (norm, position), for stacks that name none of their own."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Returns itself: a copied model keeps its context, and the builder refers to modules that cannot be copied."""
        return self

    def at(self, *steps: str | int, **changes: Any) -> Self:
        """The context of a component inside this one: `build_context.at("layers", 3, layer=3)`."""
        return replace(self, path=self.path + steps, **changes)

    def build(self, options: Options, dims: Dims) -> Any:
        """Build the component that these options describe, in this context."""
        return self.builder.build(options, dims, self)

    def component_of(self, options: Options) -> type[Component]:
        """The component class that these options belong to."""
        return self.builder.component_of(options)

    def check(self, options: Options, dims: Dims) -> Iterator[Problem]:
        """The problems of building these options in this context."""
        yield from self.component_of(options).check(options, dims, self)

    def problem(self, message: str, *steps: str | int, hint: str | None = None) -> Problem:
        """A problem at this path of the recipe, or at an option below it."""
        return Problem(message, self.path + steps, hint=hint)

    @property
    def name(self) -> str:
        """A short name for reports, such as `decoder.3.cross_attention`."""
        return f"{self.stack}.{self.layer}.{self.role}"


class Component:
    """A component: its base class (the contract) gives its kind, the literal of `use` in its options gives its name."""

    kind: ClassVar[str]
    """The kind; set by the contract."""
    options_type: ClassVar[type[Options]]
    """The options class."""
    default: ClassVar[bool] = False
    """Whether a recipe that names no component of this kind gets this one (at most one a kind)."""
    examples: ClassVar[Sequence[Mapping[str, Any]]] = ()
    """Options, as a recipe spells them, that laws and documentation test besides the defaults."""
    is_baseline: ClassVar[bool] = False
    """Whether other components of its kind are compared with this one (at most one a kind; else the default)."""
    version: ClassVar[int] = 1
    """The version of its options, raised when one is renamed or changes meaning; a recipe gives it as `use: name@1`."""

    options: Options

    @classmethod
    def name(cls) -> str:
        """The name that selects it in a recipe."""
        return str(get_args(cls.options_type.model_fields["use"].annotation)[0])

    @classmethod
    def migrate(cls, options: Mapping[str, Any], version: int) -> Mapping[str, Any]:
        """Converts options of an earlier version to this version; `use` is not among them."""
        return options

    @classmethod
    def check(cls, options: Any, dims: Dims, build_context: BuildContext) -> Iterator[Problem]:
        """The problems of building it with these options in this context; called when a recipe is validated."""
        yield from ()


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
