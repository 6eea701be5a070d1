"""Whether the parts of a recurrent stack suit each other, asked when a recipe is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kit import Attention, Dims, Options, Problem, Site
from kit_recurrent.options import RecurrentOptions


def attention_place(options: RecurrentOptions, dims: Dims, site: Site) -> tuple[Dims, Site]:
    """The sizes and the site of the attention to the memory: its queries are what the last layer remembers."""
    here = site.at("attention", role="cross_attention", layer=options.depth - 1, depth=options.depth)
    return replace(dims, width=options.width(dims)), here


def check_recurrent(options: RecurrentOptions, dims: Dims, site: Site) -> Iterator[Problem]:
    """Direction, memory and attention."""
    if site.causal and options.direction == "both":
        yield site.problem(
            f"the {site.stack} writes from left to right, and direction: both reads what is not yet written",
            "direction",
            hint="write direction: forward, or leave it out",
        )
    if dims.memory is None:
        if options.attention is not None:
            yield site.problem(f"the {site.stack} has no memory to attend to", "attention", hint="leave attention out")
        if options.feed != "none":
            yield site.problem(
                f"feed: {options.feed} gives back what attention found, and the {site.stack} has no memory",
                "feed",
                hint="leave feed out",
            )
    elif options.attention is None:
        yield site.problem(f"the {site.stack} needs an attention, because it reads a memory", hint="add attention: ...")
    else:
        yield from _check_attention(options.attention, *attention_place(options, dims, site))


def _check_attention(options: Options, dims: Dims, site: Site) -> Iterator[Problem]:
    yield from site.check(options, dims)
    component = site.component_of(options)
    assert issubclass(component, Attention)
    name, abilities = component.part_name(), component.abilities
    if not abilities.reads_memory:
        yield site.problem(
            f"{name} attention cannot attend to a memory, and the {site.stack} has one", hint="choose another attention"
        )
    elif site.causal and not abilities.steps:
        yield site.problem(
            f"{name} attention cannot go on token by token, and the {site.stack} writes that way",
            hint="choose another attention",
        )
