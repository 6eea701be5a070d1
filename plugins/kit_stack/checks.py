"""Whether the parts of a stack suit each other, asked when a recipe is read: each answer names both sides."""

from __future__ import annotations

from collections.abc import Iterator

from kit import Attention, Dims, KitError, Mask, Position, Problem, Residual, Site, all_of
from kit_stack.options import LayeredOptions
from kit_stack.plan import LayerPlan


def check_stack(options: LayeredOptions, dims: Dims, site: Site) -> Iterator[Problem]:
    """Every distinct layer, once."""
    if options.layers is not None and options.depth % sum(step.repeat for step in options.layers):
        total = sum(step.repeat for step in options.layers)
        yield site.problem(
            f"the pattern has {total} layers, and the depth {options.depth} is no multiple of that",
            "layers",
            hint=f"write depth: {-(-options.depth // total) * total}, or change what repeats",
        )
    seen: set[str] = set()
    plans = options.plan(site)
    yield from _check_streams(plans)
    yield from _check_embedding(plans)
    for plan in plans:
        key = repr((dict(plan.parts), dict(plan.paths)))
        if key not in seen:
            seen.add(key)
            yield from _check_layer(plan, dims, site, bool(options.final_norm))


def keeps_streams(plan: LayerPlan) -> bool:
    """Whether the residual makes something else of token vectors on their way through the layers."""
    component = plan.residual
    return component.enter is not Residual.enter or component.leave is not Residual.leave


def _check_streams(plans: list[LayerPlan]) -> Iterator[Problem]:
    for number, plan in enumerate(plans):
        for other in plans[number + 1 :]:
            if plan.part("residual") != other.part("residual") and (keeps_streams(plan) or keeps_streams(other)):
                one, two = sorted((plan, other), key=keeps_streams, reverse=True)
                difference = (
                    "other options" if one.residual is two.residual else f"the residual {two.residual.part_name()}"
                )
                yield two.at("residual").problem(
                    f"the residual {one.residual.part_name()} keeps several streams from the first layer to the last, "
                    f"and some layers have {difference}",
                    hint="give all layers of the stack the same residual",
                )
                return


def _check_embedding(plans: list[LayerPlan]) -> Iterator[Problem]:
    """Positions that go into token vectors do so once, before the first layer."""
    for number, plan in enumerate(plans):
        options = plan.part("position")
        if options is not None and options != plans[0].part("position"):
            component = plan.site.component_of(options)
            if issubclass(component, Position) and "embed" in component.places():
                yield plan.at("position").problem(
                    f"the position {component.part_name()} goes into token vectors before the first layer, "
                    f"and only layer {number} names it",
                    hint="name it for the whole stack, or choose a position that works within attention",
                )
                return


def _check_layer(plan: LayerPlan, dims: Dims, site: Site, final_norm: bool) -> Iterator[Problem]:
    if plan.part("norm") is None and (plan.residual.uses_norm or final_norm):
        yield site.problem("no norm is named here or for the model", hint="write norm: ... here or under model")
        return
    if (plan.part("cross_attention") is None) != (dims.memory is None):
        wanted = "needs a cross_attention, because it reads a memory" if dims.memory else "has no memory to attend to"
        hint = "add cross_attention: ..." if dims.memory else "leave cross_attention out"
        steps = () if dims.memory else plan.paths["cross_attention"]
        yield site.problem(f"the {site.stack} {wanted}", *steps, hint=hint)
    for slot in ("attention", "cross_attention", "feedforward", "residual", "norm", "position"):
        part = plan.part(slot)
        if part is not None:
            yield from plan.at(slot).check(part, plan.dims(slot, dims))
    yield from _check_attention(plan, dims)
    cross = plan.part("cross_attention")
    if cross is not None:
        component = site.component_of(cross)
        if issubclass(component, Attention) and not component.abilities.reads_memory:
            name = component.part_name()
            yield plan.at("cross_attention").problem(
                f"{name} attention cannot attend to a memory, and cross_attention does", hint="choose another attention"
            )
        elif issubclass(component, Attention):
            yield from _check_steps(plan, "cross_attention", component)


def _check_attention(plan: LayerPlan, dims: Dims) -> Iterator[Problem]:
    options = plan.part("attention")
    assert options is not None
    component = plan.site.component_of(options)
    assert issubclass(component, Attention)
    name, abilities, at = component.part_name(), component.abilities, plan.at("attention")
    if not abilities.reads_self:
        yield at.problem(f"{name} attention can only attend to a memory", hint="choose another attention")
    position = plan.part("position")
    if position is not None:
        placed = plan.site.component_of(position)
        assert issubclass(placed, Position)
        missing = placed.places() - {"embed"} - abilities.positions
        if missing:
            verbs = {
                "rotate": "turns queries and keys",
                "bias": "adds to scores",
                "interact": "adds to scores by content",
            }
            yield at.problem(
                f"{name} attention makes no use of a position that {verbs[min(missing)]}, "
                f"and the position {placed.part_name()} does",
                hint="choose another attention or another position",
            )
    yield from _check_masks(plan, dims, component)


def _check_masks(plan: LayerPlan, dims: Dims, attention: type[Attention]) -> Iterator[Problem]:
    name, abilities, at = attention.part_name(), attention.abilities, plan.at("attention")
    masks: list[Mask] = []
    for number, options in enumerate(plan.masks):
        problems = list(plan.at("masks", number).check(options, dims))
        yield from problems
        if problems:
            return
        try:
            masks.append(plan.at("masks", number).build(options, dims))
        except KitError as error:
            yield plan.at("masks", number).problem(str(error))
            return
    honoured = abilities.masks
    for mask in masks:
        if mask.shape not in honoured and "pairs" not in honoured:
            can = f"only {' and '.join(sorted(honoured))} masks" if honoured else "no mask but padding"
            yield at.problem(
                f"{name} attention honours {can}, and the mask {mask.part_name()} asks for more",
                hint="choose another attention, or leave the mask out",
            )
    both = all_of(masks)
    if plan.site.causal and (both is None or not both.writable):
        names = ", ".join(mask.part_name() for mask in masks) or "none"
        yield plan.site.problem(
            f"the {plan.site.stack} writes from left to right, and its masks ({names}) do not hide the future",
            *plan.paths["masks"],
            hint="add a mask that does, such as masks: [causal]",
        )
    yield from _check_steps(plan, "attention", attention)


def _check_steps(plan: LayerPlan, slot: str, attention: type[Attention]) -> Iterator[Problem]:
    if plan.site.causal and not attention.abilities.steps:
        yield plan.at(slot).problem(
            f"{attention.part_name()} attention cannot go on token by token, and the {plan.site.stack} writes that way",
            hint="choose another attention",
        )
