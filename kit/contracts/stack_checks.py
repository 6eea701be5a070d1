"""Checks of the layers of a stack when a recipe is read: whether each part can do what the others ask of it.

Every stack inherits them from `Stack.check`; a problem names both sides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kit.contracts.attention import Attention
from kit.contracts.layer_plan import SLOTS, LayerPlan
from kit.contracts.mask import Mask, all_of
from kit.contracts.position import Position
from kit.errors import KitError, Problem
from kit.plugin.component import Dims

_POSITION_VERBS = {
    "rotate": "turns queries and keys",
    "bias": "adds to scores",
    "content_bias": "adds to scores by content",
}


def layer_problems(plans: Sequence[LayerPlan], dims: Dims, final_norm: bool = False) -> Iterator[Problem]:
    """Problems of all layers of one stack, each distinct layer checked once."""
    yield from _residual_streams(plans)
    yield from _embedding_positions(plans)
    seen: set[str] = set()
    for plan in plans:
        key = repr((dict(plan.parts), dict(plan.paths)))
        if key not in seen:
            seen.add(key)
            yield from _layer(plan, dims, final_norm)


def _residual_streams(plans: Sequence[LayerPlan]) -> Iterator[Problem]:
    """A residual that carries several streams must be that of every layer."""
    for number, plan in enumerate(plans):
        for other in plans[number + 1 :]:
            differ = plan.part("residual") != other.part("residual")
            if differ and (plan.carries_streams or other.carries_streams):
                one, two = (plan, other) if plan.carries_streams else (other, plan)
                assert one.residual is not None and two.residual is not None
                difference = "other options" if one.residual is two.residual else f"the residual {two.residual.name()}"
                yield two.at("residual").problem(
                    f"the residual {one.residual.name()} keeps several streams from the first layer to the last, "
                    f"and some layers have {difference}",
                    hint="give all layers of the stack the same residual",
                )
                return


def _embedding_positions(plans: Sequence[LayerPlan]) -> Iterator[Problem]:
    """A position that is added to token embeddings is added once, before the first layer."""
    for number, plan in enumerate(plans):
        component = plan.part_class("position")
        if component is None or plan.part("position") == plans[0].part("position"):
            continue
        assert issubclass(component, Position)
        if "embed" in component.locations:
            yield plan.at("position").problem(
                f"the position {component.name()} goes into token vectors before the first layer, "
                f"and only layer {number} names it",
                hint="name it for the whole stack, or choose a position that works within attention",
            )
            return


def _layer(plan: LayerPlan, dims: Dims, final_norm: bool) -> Iterator[Problem]:
    here = plan.build_context
    needs_norm = final_norm or (plan.residual is not None and plan.residual.uses_norm)
    if needs_norm and plan.part("norm") is None and here.inherited.get("norm") is None:
        yield here.problem("no norm is named here or for the model", hint="write norm: ... here or under model")
        return
    if "cross_attention" in plan.paths:
        yield from _memory(plan, dims)
    for slot in SLOTS:
        options = plan.part(slot)
        if slot != "masks" and options is not None:
            yield from plan.at(slot).check(options, plan.dims(slot, dims))
    for slot in ("attention", "cross_attention"):
        component = plan.part_class(slot)
        if component is not None:
            assert issubclass(component, Attention)
            yield from (_self_attention if slot == "attention" else _cross_attention)(plan, dims, component)


def _memory(plan: LayerPlan, dims: Dims) -> Iterator[Problem]:
    """Cross-attention and a memory to attend to come together."""
    here, path = plan.build_context, plan.paths["cross_attention"]
    key, given = path[-1], plan.part("cross_attention") is not None
    if dims.memory is not None and not given:
        article = "an" if str(key)[0] in "aeiou" else "a"
        message = f"the {here.stack} needs {article} {key}, because it reads a memory"
        yield here.problem(message, hint=f"add {key}: ...")
    if dims.memory is None and given:
        yield here.problem(f"the {here.stack} has no memory to attend to", *path, hint=f"leave {key} out")


def _cross_attention(plan: LayerPlan, dims: Dims, attention: type[Attention]) -> Iterator[Problem]:
    if not attention.capabilities.reads_memory:
        yield plan.at("cross_attention").problem(
            f"{attention.name()} attention cannot attend to a memory, and the {plan.build_context.stack} has one",
            hint="choose another attention",
        )
    else:
        yield from _incremental(plan, "cross_attention", attention)


def _self_attention(plan: LayerPlan, dims: Dims, attention: type[Attention]) -> Iterator[Problem]:
    name, capabilities, at = attention.name(), attention.capabilities, plan.at("attention")
    if not capabilities.reads_self:
        yield at.problem(f"{name} attention can only attend to a memory", hint="choose another attention")
    position = plan.part_class("position")
    if position is not None:
        assert issubclass(position, Position)
        missing = position.locations - {"embed"} - capabilities.positions
        if missing:
            yield at.problem(
                f"{name} attention makes no use of a position that {_POSITION_VERBS[min(missing)]}, "
                f"and the position {position.name()} does",
                hint="choose another attention or another position",
            )
    masks: list[Mask] = []
    for number, options in enumerate(plan.masks):
        where = plan.at("masks", number)
        problems = list(where.check(options, dims))
        try:
            masks += [] if problems else [where.build(options, dims)]
        except KitError as error:
            problems = [where.problem(str(error))]
        if problems:
            yield from problems
            return
    yield from _masks(plan, masks, attention)
    yield from _incremental(plan, "attention", attention)


def _masks(plan: LayerPlan, masks: Sequence[Mask], attention: type[Attention]) -> Iterator[Problem]:
    """Attention must honour every mask, and together they must hide the future from a decoder."""
    here, honoured = plan.build_context, attention.capabilities.masks
    for mask in masks:
        if mask.shape not in honoured and "pairs" not in honoured:
            can = f"only {' and '.join(sorted(honoured))} masks" if honoured else "no mask but padding"
            yield plan.at("attention").problem(
                f"{attention.name()} attention honours {can}, and the mask {mask.name()} asks for more",
                hint="choose another attention, or leave the mask out",
            )
    both = all_of(masks)
    if "masks" in plan.paths and here.causal and (both is None or not both.is_autoregressive):
        names = ", ".join(mask.name() for mask in masks) or "none"
        yield here.problem(
            f"the {here.stack} writes from left to right, and its masks ({names}) do not hide the future",
            *plan.paths["masks"],
            hint="add a mask that does, such as masks: [causal]",
        )


def _incremental(plan: LayerPlan, slot: str, attention: type[Attention]) -> Iterator[Problem]:
    here = plan.build_context
    if here.causal and not attention.capabilities.incremental:
        yield plan.at(slot).problem(
            f"{attention.name()} attention cannot go on token by token, and the {here.stack} writes that way",
            hint="choose another attention",
        )
