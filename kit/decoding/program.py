"""A decoding step as a compiled function of tensors and whole numbers alone.

Python objects are followed once, while the step is traced; after that a call hands over a list. torch.compile would
look at every object again before each step, and fetch every weight from its module: half of a small model's time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental import _config
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.overrides import TorchFunctionMode

from kit.decoding.conditions import check, code, numbers_of
from kit.decoding.machine_code import address, compiled

Function = Callable[..., list[Any]]
"""Leaves in, leaves out."""

Form: TypeAlias = tuple[Any, ...]
"""Two tensors with the same always have the same type and sizes; empty for what is no tensor."""

_settings: Any = _config
_alone = threading.Lock()
"""Tracing is for one thread at a time: what parts ask, whether a graph is being made, holds for the process."""


class Program:
    """One function, compiled for leaves of one kind; sizes and numbers may change as far as `fits` allows."""

    def __init__(self, function: Function, leaves: Sequence[Any], same: Sequence[int], cpu: bool) -> None:
        """same: of each leaf the place of the first that is always the same number, or its own."""
        own = [place for place, first in enumerate(same) if place == first]
        with _alone, torch.compiler._compile_session_context(), _settings.patch(use_duck_shape=False):
            graph = _traced(lambda *given: function(*_spread(given, own, same)), [leaves[place] for place in own])
            weights = _lift_weights(graph)
            numbers = _numbers_out(graph)
            changed = _changed(graph)
            self.forms_in, self.forms_out = _forms(graph, own)
            used, values, sizes = _prune(graph, own, [*(leaves[place] for place in own), *weights])
            left = [own[number] for number in used if number < len(own)]
            dense = [place for place in left if isinstance(leaves[place], Tensor) and leaves[place].is_contiguous()]
            mode = _mode(values)
            known = dict(mode.shape_env.replacements)
            self._call = compiled(graph, values, mode, cpu)
            # Only now: a compiler adds conditions of its own.
            self.fits = check(mode.shape_env, known, sizes, same, dense)
            self.numbers = numbers_of(numbers, sizes)
        self.places = list(numbers)
        """Which of what the function gives are whole numbers; `numbers` tells them, given leaves."""
        self.used = left
        """Leaves that the code is given, in its order, before the weights."""
        self.entry = address(self._call)
        """Where the code begins, for callers that are not Python; None where that is not known."""
        self.changed = [own[number] for number in changed if number < len(own)]
        """Leaves that are changed in place."""
        self.weights = [weights[number - len(own)] for number in used if number >= len(own)]

    def __call__(self, leaves: Sequence[Any]) -> list[Any]:
        """What the function gives."""
        found = list(self._call([leaves[number] for number in self.used], self.weights))
        for place, number in zip(self.places, self.numbers(leaves), strict=True):
            found.insert(place, number)
        return found


def _spread(given: Sequence[Any], own: Sequence[int], same: Sequence[int]) -> list[Any]:
    """All leaves, of those that differ."""
    by_place = dict(zip(own, given, strict=True))
    return [by_place[first] for first in same]


class _InRows(TorchFunctionMode):
    """Linear layers of rows: with more axes torch asks for plain numbers as sizes, and the trace holds for those."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is not F.linear or args[0].dim() < 3:
            return func(*args, **(kwargs or {}))
        x, *rest = args
        return func(x.flatten(0, -2), *rest, **(kwargs or {})).unflatten(0, x.shape[:-1])


def _traced(function: Function, leaves: Sequence[Any]) -> fx.GraphModule:
    """Operations of torch, none of which changes anything but the leaves, at the end."""
    from torch._inductor.decomposition import select_decomp_table

    def in_rows(*given: Any) -> list[Any]:
        with _InRows():
            return function(*given)

    pure = torch.func.functionalize(in_rows, remove="mutations")
    trace = make_fx(pure, select_decomp_table(), tracing_mode="symbolic", _allow_non_fake_inputs=True)
    graph: fx.GraphModule = trace(*leaves)
    return graph


def _lift_weights(graph: fx.GraphModule) -> list[Tensor]:
    """Make inputs of the tensors that the function found in modules."""
    last = [node for node in graph.graph.nodes if node.op == "placeholder"][-1]
    lifted: dict[str, fx.Node] = {}
    weights = []
    for node in list(graph.graph.nodes):
        if node.op != "get_attr":
            continue
        if node.target not in lifted:
            weights.append(getattr(graph, node.target).detach())
            with graph.graph.inserting_after(last):
                last = lifted[node.target] = graph.graph.placeholder(f"weight_{len(weights)}")
        node.replace_all_uses_with(lifted[node.target])
        graph.graph.erase_node(node)
    for name in lifted:
        delattr(graph, name)
    return weights


def _numbers_out(graph: fx.GraphModule) -> dict[int, str]:
    """Take whole numbers out of what the graph gives, as expressions by their place: Python adds them up sooner."""
    end = next(node for node in graph.graph.nodes if node.op == "output")
    given = list(end.args[0])
    numbers = {}
    for place, one in enumerate(given):
        value = one.meta.get("val") if isinstance(one, fx.Node) else one
        if isinstance(value, torch.SymInt):
            if free_unbacked_symbols(value):
                raise ValueError("a number depends on what a tensor holds")
            numbers[place] = code(value)
        elif isinstance(value, int):
            numbers[place] = str(value)
    end.args = ([one for place, one in enumerate(given) if place not in numbers],)
    return numbers


def _changed(graph: fx.GraphModule) -> list[int]:
    """Which inputs the graph changes in place."""
    inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
    copied = {node.args[0] for node in graph.graph.nodes if node.target is torch.ops.aten.copy_.default}
    return [number for number, node in enumerate(inputs) if node in copied]


def _forms(graph: fx.GraphModule, own: Sequence[int]) -> tuple[dict[int, Form], list[Form]]:
    """Of leaves by their place, and of tensors that the graph gives."""
    inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
    taken = {place: _form(node.meta.get("val")) for place, node in zip(own, inputs, strict=False)}
    end = next(node for node in graph.graph.nodes if node.op == "output")
    return taken, [_form(node.meta.get("val")) for node in end.args[0]]


def _form(value: Any) -> Form:
    if not isinstance(value, Tensor):
        return ()
    return (value.dtype, *map(code, value.shape))


def _prune(
    graph: fx.GraphModule, own: Sequence[int], given: Sequence[Any]
) -> tuple[list[int], list[Any], dict[str, list[str]]]:
    """Leave out inputs that nothing reads.

    Which inputs are left, what stands for them, and where each size and number is found among all leaves; also each
    way from one number of a tensor to the next, where it does not lie without gaps.
    """
    graph.graph.eliminate_dead_code()
    nodes = [node for node in graph.graph.nodes if node.op == "placeholder"]
    mode = _mode(node.meta.get("val") for node in nodes)
    used: list[int] = []
    values: list[Any] = []
    sizes: dict[str, list[str]] = {}
    for number, (node, one) in enumerate(zip(nodes, given, strict=True)):
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt):
            sizes.setdefault(code(value), []).append(f"leaves[{own[number]}]")
        elif isinstance(value, Tensor):
            for axis, size in enumerate(value.shape):
                sizes.setdefault(code(size), []).append(f"shape_{own[number]}[{axis}]")
            if not one.is_contiguous():
                for axis, step in enumerate(value.stride()):
                    if one.shape[axis] > 1:
                        sizes.setdefault(code(step), []).append(f"leaves[{own[number]}].stride({axis})")
        if not node.users:
            graph.graph.erase_node(node)
            continue
        if value is None:
            value = node.meta["val"] = mode.from_tensor(one, static_shapes=True) if isinstance(one, Tensor) else one
        used.append(number)
        values.append(value)
    graph.recompile()
    return used, values, sizes


def _mode(values: Iterable[Any]) -> Any:
    """In which the stand-ins of tensors were made."""
    return next(value.fake_mode for value in values if isinstance(value, FakeTensor))
