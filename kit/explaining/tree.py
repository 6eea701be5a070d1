"""A model as a tree of its parts, with shapes and parameters; layers that are alike are told once."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import nn

from kit.component import Component


@dataclass
class Node:
    """One part of a model, or a group of them."""

    name: str
    part: str = ""
    """The kind and name of the part, such as `attention softmax`; empty for a group."""
    options: str = ""
    shapes: list[str] = field(default_factory=list)
    parameters: int = 0
    """Parameters of it and all below it, each counted once in the whole tree, times `repeat`."""
    shared: bool = False
    """Whether its parameters are another part's too, and counted there."""
    repeat: int = 1
    children: list[Node] = field(default_factory=list)

    def alike(self, other: Node) -> bool:
        """Whether two nodes differ in nothing but their name."""
        mine = (self.part, self.options, self.shapes, self.parameters // self.repeat, len(self.children))
        theirs = (other.part, other.options, other.shapes, other.parameters // other.repeat, len(other.children))
        return mine == theirs and all(a.alike(b) for a, b in zip(self.children, other.children, strict=True))


def grow(model: nn.Module, name: str = "model") -> Node:
    """The tree of a model."""
    return _grow(model, name, set())


def _grow(module: nn.Module, name: str, counted: set[int]) -> Node:
    node = Node(name)
    if isinstance(module, Component):
        node.part = f"{module.kind} {module.part_name()}"
        node.options = _options(module)
    for parameter in module.parameters(recurse=False):
        node.shared = node.shared or id(parameter) in counted
        if id(parameter) not in counted:
            counted.add(id(parameter))
            node.parameters += parameter.numel()
    # An embedding with its table, a norm with its weights: shapes of their own parameters say most.
    node.shapes += [f"{child_name} {_arrow(child)}" for child_name, child in _linears(module)]
    node.shapes += [
        f"{parameter_name} {' × '.join(map(str, parameter.shape))}"
        for parameter_name, parameter in module.named_parameters(recurse=False)
    ]
    for child_name, child in module.named_children():
        grown = _grow(child, f"layer {child_name}" if isinstance(module, nn.ModuleList) else child_name, counted)
        node.parameters += grown.parameters
        if not isinstance(child, nn.Linear) and (grown.parameters or grown.part or grown.children):
            node.children += grown.children if _is_wrapper(child) else [grown]
    node.children = _folded(node.children)
    return node


def _options(part: Component) -> str:
    values = part.options.model_dump(exclude={"use"}, exclude_defaults=True)
    return ", ".join(f"{key}={value}" for key, value in values.items() if not isinstance(value, dict | list))


def _linears(module: nn.Module) -> list[tuple[str, nn.Linear]]:
    return [(name, child) for name, child in module.named_children() if isinstance(child, nn.Linear)]


def _arrow(linear: nn.Linear) -> str:
    return f"{linear.in_features} → {linear.out_features}"


def _is_wrapper(module: nn.Module) -> bool:
    return isinstance(module, nn.ModuleList | nn.ModuleDict)


def _folded(nodes: list[Node]) -> list[Node]:
    """Neighbours that are alike become one node that says how many they are."""
    folded: list[Node] = []
    for node in nodes:
        last = folded[-1] if folded else None
        if last is not None and last.alike(node) and node.name.startswith("layer "):
            last.repeat += node.repeat
            last.parameters += node.parameters
            first = last.name.split("–")[0]
            last.name = f"{first}–{node.name.removeprefix('layer ')}"
        else:
            folded.append(node)
    return folded
