"""Part tree of a model: parts with shapes and parameter counts, equal layers folded into one, as data or HTML."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape

from torch import nn

from kit.plugin.component import Component
from kit.recipe.html import html_text

_OPEN_LEVELS = 2
"""Levels of the tree that a notebook shows unfolded."""


@dataclass
class PartNode:
    """One part of a model, or a group of them."""

    name: str
    part: str = ""
    """The kind and name of the part, such as `attention softmax`; empty for a group."""
    options: str = ""
    """Options that differ from their defaults."""
    shapes: list[str] = field(default_factory=list)
    parameters: int = 0
    """Parameters of it and all below it, each counted once in the whole tree, times `repeat`."""
    shared: bool = False
    """Whether its parameters belong to another part too, and are counted there."""
    repeat: int = 1
    """How many equal neighbours this node stands for."""
    children: list[PartNode] = field(default_factory=list)

    def equals(self, other: PartNode) -> bool:
        """Whether two nodes differ in nothing but their name."""
        mine = (self.part, self.options, self.shapes, self.parameters // self.repeat, len(self.children))
        theirs = (other.part, other.options, other.shapes, other.parameters // other.repeat, len(other.children))
        return mine == theirs and all(a.equals(b) for a, b in zip(self.children, other.children, strict=True))


def part_tree(model: nn.Module, name: str = "model") -> PartNode:
    """The tree of a model."""
    return _node(model, name, set())


def model_html(model: nn.Module) -> str:
    """The tree of a model, for notebooks."""
    return f"<div>{tree_html(part_tree(model, type(model).__name__))}</div>"


def tree_html(node: PartNode, name: str | None = None, level: int = 0) -> str:
    """A tree as nested `details` elements; everything in it is escaped."""
    words = [f"<b>{escape(name or node.name)}</b>"]
    if node.part:
        words.append(html_text(node.part.partition(" ")[2]))
    if node.options:
        words.append(f"<small>({html_text(node.options)})</small>")
    if node.shapes:
        words.append(html_text(", ".join(node.shapes)))
    if node.shared:
        words.append("<i>shared</i>")
    elif node.parameters:
        each = f"{node.repeat} × {node.parameters // node.repeat:,} = " if node.repeat > 1 else ""
        words.append(f"<small>{each}{node.parameters:,} parameters</small>")
    label = " · ".join(words)
    if not node.children:
        return f'<div style="margin-left: 2em">{label}</div>'
    below = "".join(tree_html(child, level=level + 1) for child in node.children)
    is_open = " open" if level < _OPEN_LEVELS else ""
    return f'<details{is_open} style="margin-left: 1em"><summary>{label}</summary>{below}</details>'


def _node(module: nn.Module, name: str, counted: set[int]) -> PartNode:
    node = PartNode(name)
    if isinstance(module, Component):
        node.part = f"{module.kind} {module.name()}"
        node.options = _changed_options(module)
    for parameter in module.parameters(recurse=False):
        node.shared = node.shared or id(parameter) in counted
        if id(parameter) not in counted:
            counted.add(id(parameter))
            node.parameters += parameter.numel()
    linears = [(child_name, child) for child_name, child in module.named_children() if isinstance(child, nn.Linear)]
    node.shapes += [f"{child_name} {child.in_features} → {child.out_features}" for child_name, child in linears]
    node.shapes += [
        f"{parameter_name} {' × '.join(map(str, parameter.shape))}"
        for parameter_name, parameter in module.named_parameters(recurse=False)
    ]
    for child_name, child in module.named_children():
        below = _node(child, f"layer {child_name}" if isinstance(module, nn.ModuleList) else child_name, counted)
        node.parameters += below.parameters
        if not isinstance(child, nn.Linear) and (below.parameters or below.part or below.children):
            node.children += below.children if isinstance(child, nn.ModuleList | nn.ModuleDict) else [below]
    node.children = _folded(node.children)
    return node


def _changed_options(part: Component) -> str:
    values = part.options.model_dump(exclude={"use"}, exclude_defaults=True)
    return ", ".join(f"{key}={value}" for key, value in values.items() if not isinstance(value, dict | list))


def _folded(nodes: list[PartNode]) -> list[PartNode]:
    """Equal neighbouring layers as one node that counts them."""
    folded: list[PartNode] = []
    for node in nodes:
        last = folded[-1] if folded else None
        if last is not None and last.equals(node) and node.name.startswith("layer "):
            last.repeat += node.repeat
            last.parameters += node.parameters
            first = last.name.split("–")[0]
            last.name = f"{first}–{node.name.removeprefix('layer ')}"
        else:
            folded.append(node)
    return folded
