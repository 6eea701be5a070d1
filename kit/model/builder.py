"""Construction of models from recipes: build contexts and sizes of parts, checks, and the meta device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from kit.contracts.attention import Attention, Capabilities
from kit.contracts.embedding import Embedding, Head
from kit.contracts.regularizer import Regularizer
from kit.contracts.stack import Stack
from kit.errors import KitError, Problem, RecipeError
from kit.model.families import DecoderModel, EncoderDecoder, EncoderModel, Model, Tower
from kit.plugin.component import BuildContext, Component, Dims, Options
from kit.recipe.sections import ModelSection, Vocabularies
from kit.sequence.attention_context import AttentionContext
from kit.sequence.cache import Cache, CrossAttentionKVCache, KVCache

if TYPE_CHECKING:
    from kit.plugin.registry import Registry


_DRAWS = frozenset({"normal_", "uniform_", "random_", "bernoulli_", "exponential_", "trunc_normal_"})


class _NoInitialisation(TorchFunctionMode):
    """Skips initialisation of meta tensors, which torch would trace for seconds."""

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        filled = args[0] if args else (kwargs or {}).get("tensor")
        initialises = getattr(function, "__module__", None) == "torch.nn.init" or function.__name__ in _DRAWS
        if initialises and isinstance(filled, Tensor) and filled.is_meta:
            return filled
        return function(*args, **(kwargs or {}))


@contextmanager
def meta_init() -> Iterator[None]:
    """Within this context modules are built on the meta device, without initialisation."""
    with torch.device("meta"), _NoInitialisation():
        yield


class FullyPrunedAttention(Attention):
    """Attention whose heads are all pruned: zeros, plus the output bias."""

    capabilities = Capabilities(supports_shared_beams=True, weights=False)

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        named = getattr(options, "output_bias", None)
        has_bias = getattr(options, "bias", False) if named is None else named
        self.bias = nn.Parameter(torch.zeros(dims.width)) if has_bias else None

    def forward(
        self, x: Tensor, memory: Tensor | None, context: AttentionContext, state: Cache | None = None
    ) -> Tensor:
        """x: [..., width]; zeros plus the output bias, in the same shape."""
        if context.observer is not None:
            context.observer.without_weights(self.build_context, "all of its heads were taken out")
        nothing = torch.zeros_like(x)
        return nothing if self.bias is None else nothing + self.bias

    def start(self) -> Cache:
        """A cache that stays empty."""
        return KVCache() if self.dims.memory is None else CrossAttentionKVCache()


ASSUMED_VOCABULARY = 1000
"""Vocabulary size of checks and explanations, where the tokenizer decides it."""


Symbols: TypeAlias = Mapping[str, tuple[str, ...]]
"""The string of each token id, by tower: encoder and decoder."""


FAMILIES: dict[str, type[Model]] = {
    "encoder-decoder": EncoderDecoder,
    "encoder": EncoderModel,
    "decoder": DecoderModel,
}


class VocabularySizes(Protocol):
    """Vocabulary sizes of source and target."""

    @property
    def source(self) -> int:
        """Token ids of the encoder."""

    @property
    def target(self) -> int:
        """Token ids of the decoder."""


class ModelBuilder:
    """Builds parts and models from their options, with the parts of one registry."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry

    def component_of(self, options: Options) -> type[Component]:
        """The class that these options belong to."""
        return self.registry.part_for_options(type(options)).component

    def build(self, options: Options, dims: Dims, build_context: BuildContext) -> Any:
        """Build one part; an error names its place in the recipe."""
        component: Any = self.component_of(options)
        if (
            issubclass(component, Attention)
            and (left := build_context.kept_heads.get(build_context.name)) is not None
            and not left
        ):
            component = FullyPrunedAttention
        try:
            return component(options, dims, build_context)
        except RecipeError:
            raise
        except KitError as error:
            raise RecipeError([build_context.problem(str(error))]) from error
        except Exception as error:
            name = f"{component.kind} {component.name()}"
            raise RecipeError(
                [build_context.problem(f"{name} could not be built: {type(error).__name__}: {error}")]
            ) from error

    def model(
        self,
        section: ModelSection,
        vocabularies: VocabularySizes | None = None,
        symbols: Symbols | None = None,
        checked: bool = False,
    ) -> Model:
        """Build the whole model; checked: `check` has found no problem in this section already."""
        problems = [] if checked else list(self.check(section, vocabularies))
        if problems:
            raise RecipeError(problems)
        plan = ModelPlan(self, section, vocabularies, symbols)
        embeddings = plan.embeddings()
        towers = {name: plan.tower(name, embedding) for name, embedding in embeddings.items()}
        tied = section.tie in ("output", "all")
        model = FAMILIES[section.family](towers, plan.head(), tied, plan.regularizers())
        unknown = list(_unknown_attention_names(model, section.kept_heads or {}))
        if unknown:
            raise RecipeError([plan.build_context.problem(message, "kept_heads") for message in unknown])
        return model

    def check(self, section: ModelSection, vocabularies: VocabularySizes | None = None) -> Iterator[Problem]:
        """All problems of a model section, found without building it."""
        yield from dict.fromkeys(ModelPlan(self, section, vocabularies).check())


class ModelPlan:
    """Expansion of a model section: sizes and build context of every part."""

    def __init__(
        self,
        builder: ModelBuilder,
        section: ModelSection,
        vocabularies: VocabularySizes | None,
        symbols: Symbols | None = None,
    ) -> None:
        self.builder = builder
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
        self.build_context = BuildContext(
            builder, ("model",), inherited=inherited, depths=self._depths(), kept_heads=kept
        )

    def dims(self, tower: str) -> Dims:
        """The sizes of one tower."""
        section = self.section
        return Dims(
            section.width,
            vocabulary=self.vocabulary[tower],
            symbols=self.symbols.get(tower),
            length=section.length,
            dropout=section.dropout,
        )

    def stack_context(self, tower: str) -> BuildContext:
        """The build context of a stack."""
        return self.build_context.at(tower, stack=tower, role="stack", causal=tower == "decoder")

    def stack_dims(self, tower: str) -> Dims:
        """The sizes of a stack; the decoder of an encoder-decoder has a memory."""
        has_memory = tower == "decoder" and "encoder" in self.names
        return replace(self.dims(tower), memory=self.section.width if has_memory else None)

    def embeddings(self) -> dict[str, Embedding]:
        """One per tower, or one for both where they are tied."""
        built: dict[str, Embedding] = {}
        for name in self.names:
            shared = self.section.tie in ("inputs", "all")
            build_context = self.build_context.at("embedding", stack=name, role="embedding")
            first = next(iter(built.values()), None)
            built[name] = first if shared and first else build_context.build(self._filled("embedding"), self.dims(name))
        return built

    def tower(self, name: str, embedding: Embedding) -> Tower:
        """An encoder or a decoder with its embedding."""
        options = getattr(self.section, name)
        stack: Stack = self.stack_context(name).build(options, self.stack_dims(name))
        norm = None
        if self.section.embedding_norm:
            norm = self.build_context.at("norm", role="norm").build(
                self.build_context.inherited["norm"], self.dims(name)
            )
        return Tower(embedding, stack, norm, self.section.dropout)

    def head(self) -> Head:
        """The output head."""
        tied = self.section.tie in ("output", "all")
        build_context = self.build_context.at("head", stack=self.names[-1], role="tied" if tied else "head")
        head: Head = build_context.build(self._filled("head"), self.dims(self.names[-1]))
        return head

    def regularizers(self) -> list[Regularizer]:
        """The regularizers of attention."""
        dims, found = self.dims(self.names[-1]), enumerate(self.section.regularizers)
        return [
            self.build_context.at("regularizers", number, role="regularizer").build(each, dims)
            for number, each in found
        ]

    def check(self) -> Iterator[Problem]:
        """Problems of the slots, then of each part in its slot."""
        yield from self._check_towers()
        yield from self._check_ties()
        for kind in ("embedding", "head"):
            if getattr(self.section, kind) is None and self.builder.registry.default(kind) is None:
                yield self.build_context.problem(
                    f"no {kind} is named and no default is installed", hint=f"write {kind}: ..."
                )
            else:
                build_context = self.build_context.at(kind, stack=self.names[-1], role=kind)
                yield from build_context.check(self._filled(kind), self.dims(self.names[-1]))
        if self.section.embedding_norm and self.section.norm is None:
            yield self.build_context.problem(
                "there is no norm for embeddings", "embedding_norm", hint="write norm: ..."
            )
        for tower in self.names:
            options = getattr(self.section, tower)
            if options is not None:
                yield from self.stack_context(tower).check(options, self.stack_dims(tower))

    def _depths(self) -> dict[str, int]:
        stacks = {name: getattr(self.section, name) for name in self.names}
        named = {name: options for name, options in stacks.items() if options is not None}
        components = {name: self.builder.component_of(options) for name, options in named.items()}
        return {name: kind.depth_of(stacks[name]) for name, kind in components.items() if issubclass(kind, Stack)}

    def _check_towers(self) -> Iterator[Problem]:
        family = self.section.family
        for tower in ("encoder", "decoder"):
            named = getattr(self.section, tower) is not None
            if named and tower not in self.names:
                hint = "leave it out, or write family: encoder-decoder"
                yield self.build_context.problem(f"a model of the family {family} has no {tower}", tower, hint=hint)
            if not named and tower in self.names:
                yield self.build_context.problem(
                    f"the family {family} needs this key: {tower}", hint=f"add {tower}: ..."
                )

    def _check_ties(self) -> Iterator[Problem]:
        tie, given = self.section.tie, self.section.vocabulary
        if tie in ("inputs", "all") and isinstance(given, Vocabularies) and given.source != given.target:
            yield self.build_context.problem(
                f"tie: {tie} makes source and target share one table, and their vocabularies differ "
                f"({given.source} and {given.target})",
                "tie",
                hint="write tie: output, or one vocabulary for both",
            )

    def _filled(self, kind: str) -> Options:
        options: Options | None = getattr(self.section, kind)
        if options is not None:
            return options
        default = self.builder.registry.default(kind)
        if default is None:
            raise KitError(f"no {kind} is named, and no installed plugin brings a default one")
        return default.component.options_type.model_validate({"use": default.name})


def _unknown_attention_names(model: Model, kept: Mapping[str, Sequence[int]]) -> Iterator[str]:
    """Problems of `kept_heads`: attentions that do not exist, or whose heads cannot be pruned."""
    parts = {part.build_context.name: part for part in model.modules() if isinstance(part, Attention)} if kept else {}
    for name in kept:
        if name not in parts:
            yield f"there is no attention {name!r}; there are {', '.join(parts)}"
        elif getattr(parts[name], "pruned_heads", None) is None and not isinstance(parts[name], FullyPrunedAttention):
            yield f"the attention {name} ({parts[name].name()}) cannot do with fewer heads"
