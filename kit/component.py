"""What every part of a model is: options that a recipe can hold, and a class built from them for one place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, get_args

from pydantic import BaseModel, ConfigDict

from kit.errors import Problem

if TYPE_CHECKING:
    from typing import Self


class Options(BaseModel):
    """The options of a part, as a recipe spells them: frozen, unknown keys refused, docstrings as documentation.

    A subclass says its name with a literal: `use: Literal["window"] = "window"`.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False, hide_input_in_errors=True
    )

    use: str
    """Which part this is."""


@dataclass(frozen=True)
class Slot:
    """Marks a field of a recipe section, or of a part's own options, that holds any part of one kind.

    Written `norm: Annotated[Options, Slot("norm")]`; `kit.contracts` has a ready alias for each kind.
    """

    kind: str


@dataclass(frozen=True)
class Dims:
    """The sizes that a part is built for."""

    width: int
    """How many numbers describe a token."""
    memory: int | None = None
    """The width of what a decoder attends to; None where there is no memory."""
    heads: int = 1
    """Heads of the attention that a position serves."""
    head_width: int = 0
    """Width of one query or key in that attention."""
    vocabulary: int | None = None
    """How many token ids there are, for embeddings and heads."""
    symbols: tuple[str, ...] | None = None
    """The text of each token id, for embeddings that look at it; None until a tokenizer is known."""
    length: int = 512
    """The longest text the model is made for."""
    dropout: float = 0.0
    """The share of numbers that are dropped in training."""


class Builder(Protocol):
    """Builds and checks parts from their options; the assembly of a kit is one."""

    def build(self, options: Options, dims: Dims, site: Site) -> Any:
        """Build the part that these options describe."""

    def component_of(self, options: Options) -> type[Component]:
        """The class that these options belong to."""


@dataclass(frozen=True)
class Site:
    """Where in a model a part sits, and how it gets the parts that it is itself made of."""

    builder: Builder = field(repr=False, compare=False)
    path: tuple[str | int, ...] = ()
    """The place in the recipe, for messages."""
    stack: str = ""
    """The stack it is in: encoder or decoder."""
    role: str = ""
    """The slot it fills: attention, cross_attention, feedforward, ..."""
    layer: int = 0
    """Which layer of its stack, counted from 0."""
    depth: int = 1
    """How many layers that stack has."""
    depths: Mapping[str, int] = field(default_factory=dict, repr=False, compare=False)
    """How many layers each stack of the model has, by name, for parts that go by the whole model's depth."""
    sublayers: tuple[str, ...] = ()
    """The sublayers of the layer it is in, in order: attention, feedforward, ..."""
    causal: bool = False
    """Whether the stack writes a text from left to right."""
    kept: Mapping[str, Sequence[int]] = field(default_factory=dict, repr=False, compare=False)
    """The heads that are left of attentions that have lost some, by the name of their site."""
    inherited: Mapping[str, Options] = field(default_factory=dict, repr=False, compare=False)
    """Parts chosen once for the whole model (norm, position), for stacks that name none of their own."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Itself: a copy of a model sits where the model sat, and the builder knows every plugin there is."""
        return self

    def at(self, *steps: str | int, **changes: Any) -> Self:
        """The site of something inside this one: `site.at("layers", 3, layer=3)`."""
        return replace(self, path=self.path + steps, **changes)

    def build(self, options: Options, dims: Dims) -> Any:
        """Build the part that these options describe, at this site."""
        return self.builder.build(options, dims, self)

    def component_of(self, options: Options) -> type[Component]:
        """The class that would be built from these options."""
        return self.builder.component_of(options)

    def check(self, options: Options, dims: Dims) -> Iterator[Problem]:
        """What stands against building these options here."""
        yield from self.component_of(options).check(options, dims, self)

    def problem(self, message: str, *steps: str | int, hint: str | None = None) -> Problem:
        """A mistake at this site, or at an option of it."""
        return Problem(message, self.path + steps, hint=hint)

    @property
    def name(self) -> str:
        """A short name for reports, such as `decoder.3.cross_attention`."""
        return f"{self.stack}.{self.layer}.{self.role}"


class Component:
    """A part of the kit: its base class says its kind, the literal of `use` in its options says its name."""

    kind: ClassVar[str]
    """The kind of part; set by the contract it derives from."""
    options_type: ClassVar[type[Options]]
    """The options that a recipe gives it."""
    default: ClassVar[bool] = False
    """Whether this is the part a recipe gets where it names none of this kind (at most one part a kind)."""
    examples: ClassVar[Sequence[Mapping[str, Any]]] = ()
    """Options, as a recipe would write them, that laws and documentation try it with besides its defaults."""
    yardstick: ClassVar[bool] = False
    """Whether other parts of its kind are measured beside this one (at most one part a kind); a default is one too."""
    version: ClassVar[int] = 1
    """Goes up when an option is renamed or comes to mean something else; a recipe says its own: `use: name@1`."""

    options: Options

    @classmethod
    def part_name(cls) -> str:
        """The name that a recipe selects it by."""
        return str(get_args(cls.options_type.model_fields["use"].annotation)[0])

    @classmethod
    def migrate(cls, options: Mapping[str, Any], version: int) -> Mapping[str, Any]:
        """Options that a recipe wrote for an earlier version, as this version wants them; `use` is not among them."""
        return options

    @classmethod
    def check(cls, options: Any, dims: Dims, site: Site) -> Iterator[Problem]:
        """What stands against building it with these options at this site; asked when a recipe is read."""
        yield from ()
