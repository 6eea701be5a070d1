"""Assembles a model from the model section of a recipe; the only place that knows every slot of a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from kit.component import Component, Dims, Options, Site
from kit.contracts.attention import Attention
from kit.contracts.embedding import Embedding
from kit.contracts.head import Head
from kit.contracts.regularizer import Regularizer
from kit.contracts.stack import Stack
from kit.errors import KitError, Problem, RecipeError
from kit.model.families import DecoderModel, EncoderDecoder, EncoderModel, Model
from kit.model.headless import HeadlessAttention
from kit.model.side import Side
from kit.recipe.sections import ModelSection, Vocabularies

if TYPE_CHECKING:
    from kit.registry import Registry

ASSUMED_VOCABULARY = 1000
"""What checks and explanations reckon with where the tokenizer decides."""


Symbols: TypeAlias = Mapping[str, tuple[str, ...]]
"""The text of each token id, by side: encoder and decoder."""


FAMILIES: dict[str, type[Model]] = {
    "encoder-decoder": EncoderDecoder,
    "encoder": EncoderModel,
    "decoder": DecoderModel,
}


class Named(Protocol):
    """Sizes of the vocabularies, where they are known."""

    @property
    def source(self) -> int:
        """How many ids the encoder reads."""

    @property
    def target(self) -> int:
        """How many ids the decoder reads and writes."""


class Assembly:
    """Builds parts and models from options, with the parts of one registry."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry

    def component_of(self, options: Options) -> type[Component]:
        """The class that these options belong to."""
        return self.registry.of_options(type(options)).component

    def build(self, options: Options, dims: Dims, site: Site) -> Any:
        """Build one part; what goes wrong is said with its place in the recipe."""
        component: Any = self.component_of(options)
        if issubclass(component, Attention) and (left := site.kept.get(site.name)) is not None and not left:
            component = HeadlessAttention
        try:
            return component(options, dims, site)
        except RecipeError:
            raise
        except KitError as error:
            raise RecipeError([site.problem(str(error))]) from error
        except Exception as error:
            name = f"{component.kind} {component.part_name()}"
            raise RecipeError([site.problem(f"{name} could not be built: {type(error).__name__}: {error}")]) from error

    def model(self, section: ModelSection, vocabularies: Named | None = None, symbols: Symbols | None = None) -> Model:
        """Build the whole model."""
        problems = list(self.check(section, vocabularies))
        if problems:
            raise RecipeError(problems)
        plan = Plan(self, section, vocabularies, symbols)
        embeddings = plan.embeddings()
        sides = {name: plan.side(name, embedding) for name, embedding in embeddings.items()}
        tied = section.tie in ("output", "all")
        model = FAMILIES[section.family](sides, plan.head(), tied, plan.regularizers())
        unknown = list(_unknown_sites(model, section.kept_heads or {}))
        if unknown:
            raise RecipeError([plan.site.problem(message, "kept_heads") for message in unknown])
        return model

    def check(self, section: ModelSection, vocabularies: Named | None = None) -> Iterator[Problem]:
        """Everything that stands against building it, without building it."""
        yield from dict.fromkeys(Plan(self, section, vocabularies).check())


class Plan:
    """What a model section comes to: sizes and sites for each part."""

    def __init__(
        self,
        assembly: Assembly,
        section: ModelSection,
        vocabularies: Named | None,
        symbols: Symbols | None = None,
    ) -> None:
        self.assembly = assembly
        self.section = section
        given = section.vocabulary
        known = vocabularies or (given if isinstance(given, Vocabularies) else None)
        size = given if isinstance(given, int) else ASSUMED_VOCABULARY
        self.vocabulary = {"encoder": known.source if known else size, "decoder": known.target if known else size}
        self.symbols = symbols or {}
        chosen = {"norm": section.norm, "position": section.position}
        inherited = {name: options for name, options in chosen.items() if options is not None}
        self.names = section.family.split("-")
        kept = section.kept_heads or {}
        self.site = Site(assembly, ("model",), inherited=inherited, depths=self._depths(), kept=kept)

    def dims(self, side: str) -> Dims:
        """The sizes of one side."""
        section = self.section
        return Dims(
            section.width,
            vocabulary=self.vocabulary[side],
            symbols=self.symbols.get(side),
            length=section.length,
            dropout=section.dropout,
        )

    def stack_site(self, side: str) -> Site:
        """Where a stack sits."""
        return self.site.at(side, stack=side, role="stack", causal=side == "decoder")

    def stack_dims(self, side: str) -> Dims:
        """The sizes of a stack: a decoder beside an encoder has a memory."""
        crossing = side == "decoder" and "encoder" in self.names
        return replace(self.dims(side), memory=self.section.width if crossing else None)

    def embeddings(self) -> dict[str, Embedding]:
        """One for each side, or one for both where a recipe ties them."""
        built: dict[str, Embedding] = {}
        for name in self.names:
            shared = self.section.tie in ("inputs", "all")
            site = self.site.at("embedding", stack=name, role="embedding")
            first = next(iter(built.values()), None)
            built[name] = first if shared and first else site.build(self._filled("embedding"), self.dims(name))
        return built

    def side(self, name: str, embedding: Embedding) -> Side:
        """An encoder or a decoder."""
        options = getattr(self.section, name)
        stack: Stack = self.stack_site(name).build(options, self.stack_dims(name))
        norm = None
        if self.section.embedding_norm:
            norm = self.site.at("norm", role="norm").build(self.site.inherited["norm"], self.dims(name))
        return Side(embedding, stack, norm, self.section.dropout)

    def head(self) -> Head:
        """What is read off the last layer."""
        tied = self.section.tie in ("output", "all")
        site = self.site.at("head", stack=self.names[-1], role="tied" if tied else "head")
        head: Head = site.build(self._filled("head"), self.dims(self.names[-1]))
        return head

    def regularizers(self) -> list[Regularizer]:
        """What shapes attention in training."""
        dims, found = self.dims(self.names[-1]), enumerate(self.section.regularizers)
        return [self.site.at("regularizers", number, role="regularizer").build(each, dims) for number, each in found]

    def check(self) -> Iterator[Problem]:
        """Slots first, then each part in its slot."""
        yield from self._check_sides()
        yield from self._check_ties()
        for kind in ("embedding", "head"):
            if getattr(self.section, kind) is None and self.assembly.registry.default(kind) is None:
                yield self.site.problem(f"no {kind} is named and no default is installed", hint=f"write {kind}: ...")
            else:
                site = self.site.at(kind, stack=self.names[-1], role=kind)
                yield from site.check(self._filled(kind), self.dims(self.names[-1]))
        if self.section.embedding_norm and self.section.norm is None:
            yield self.site.problem("there is no norm for embeddings", "embedding_norm", hint="write norm: ...")
        for side in self.names:
            options = getattr(self.section, side)
            if options is not None:
                yield from self.stack_site(side).check(options, self.stack_dims(side))

    def _depths(self) -> dict[str, int]:
        stacks = {name: getattr(self.section, name) for name in self.names}
        named = {name: options for name, options in stacks.items() if options is not None}
        components = {name: self.assembly.component_of(options) for name, options in named.items()}
        return {name: kind.depth_of(stacks[name]) for name, kind in components.items() if issubclass(kind, Stack)}

    def _check_sides(self) -> Iterator[Problem]:
        family = self.section.family
        for side in ("encoder", "decoder"):
            named = getattr(self.section, side) is not None
            if named and side not in self.names:
                hint = "leave it out, or write family: encoder-decoder"
                yield self.site.problem(f"a model of the family {family} has no {side}", side, hint=hint)
            if not named and side in self.names:
                yield self.site.problem(f"the family {family} needs this key: {side}", hint=f"add {side}: ...")

    def _check_ties(self) -> Iterator[Problem]:
        tie, given = self.section.tie, self.section.vocabulary
        if tie in ("inputs", "all") and isinstance(given, Vocabularies) and given.source != given.target:
            yield self.site.problem(
                f"tie: {tie} makes source and target share one table, and their vocabularies differ "
                f"({given.source} and {given.target})",
                "tie",
                hint="write tie: output, or one vocabulary for both",
            )

    def _filled(self, kind: str) -> Options:
        options: Options | None = getattr(self.section, kind)
        if options is not None:
            return options
        default = self.assembly.registry.default(kind)
        if default is None:
            raise KitError(f"no {kind} is named, and no installed plugin brings a default one")
        return default.component.options_type.model_validate({"use": default.name})


def _unknown_sites(model: Model, kept: Mapping[str, Sequence[int]]) -> Iterator[str]:
    """Heads that are kept of attentions that are not there, or that cannot lose any."""
    parts = {part.site.name: part for part in model.modules() if isinstance(part, Attention)} if kept else {}
    for name in kept:
        if name not in parts:
            yield f"there is no attention {name!r}; there are {', '.join(parts)}"
        elif getattr(parts[name], "kept", None) is None and not isinstance(parts[name], HeadlessAttention):
            yield f"the attention {name} ({parts[name].part_name()}) cannot do with fewer heads"
