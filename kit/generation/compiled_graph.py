"""Compiles one function of flattened leaves with make_fx and inductor, for sizes and integers that may change.

The trace is symbolic. Guards are generated from its shape environment as a Python function of the leaves, integers that
the function returns are computed in Python, and on a CPU the compiled code is called without torch's wrapper.
"""

from __future__ import annotations

import ctypes
import math
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, fx
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental import _config
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.overrides import TorchFunctionMode
from torch.utils._sympy.printers import PythonPrinter

from kit.kernels.decoding import inductor_c_shims


def python_expression(size: Any) -> str:
    """Returns a size or integer as a Python expression of its symbols."""
    return PythonPrinter().doprint(size.node.expr) if isinstance(size, torch.SymInt) else str(size)


def compile_guards(
    env: Any, known: dict[Any, Any], sizes: dict[str, list[str]], same: Sequence[int], dense: Sequence[int]
) -> Callable[[Sequence[Any]], bool]:
    """Generates the guard function: true if sizes, integers and strides of leaves are those that the code holds for.

    known: replacements of symbols at the time when sizes got their names; same: for each leaf the index of the first
    that always is the same integer; dense: leaves that must be contiguous.
    """
    tests = [f"leaves[{index}] == leaves[{first}]" for index, first in enumerate(same) if index != first]
    tests += [f"{where} == {name}" for name, found in sizes.items() for where in found[name.isidentifier() :]]
    tests += [f"leaves[{index}].is_contiguous()" for index in dense]
    for symbol, span in env.var_to_range.items():
        # Torch specialises on sizes of 0 and 1 without a guard: a size above 1 must stay above 1.
        if str(symbol) in sizes and span.lower.is_Integer:
            tests.append(f"{symbol} >= {span.lower}")
    for guard in env.guards:
        condition = _in_named_symbols(guard.expr, known)
        if all(str(symbol) in sizes for symbol in condition.free_symbols):
            tests.append(f"({PythonPrinter().doprint(condition)})")
    fits: Callable[[Sequence[Any]], bool] = _function(sizes, " and ".join(tests) or "True")
    return fits


def _in_named_symbols(condition: Any, known: dict[Any, Any]) -> Any:
    """Returns a condition in terms of the symbols that sizes are named by."""
    while condition.free_symbols & known.keys():
        condition = condition.xreplace(known)
    return condition


def compile_integers(integers: dict[int, str], sizes: dict[str, list[str]]) -> Callable[[Sequence[Any]], Sequence[int]]:
    """Generates a function that computes the integers of the result from the leaves."""
    found: Callable[[Sequence[Any]], Sequence[int]] = _function(sizes, f"[{', '.join(integers.values())}]")
    return found


def _function(sizes: dict[str, list[str]], result: str) -> Any:
    """Generates a function of leaves, in which sizes and integers have the names of their symbols."""
    known = [f"    {name} = {found[0]}" for name, found in sizes.items() if name.isidentifier() and name in result]
    # Reading a shape costs more than the comparisons with it, so it is read once.
    shapes = sorted(set(re.findall(r"shape_(\d+)\[", " ".join([*known, result]))))
    known[:0] = [f"    shape_{index} = leaves[{index}].shape" for index in shapes]
    context: dict[str, Any] = {"math": math}
    exec("\n".join(["def function(leaves):", *known, f"    return {result}"]), context)
    return context["function"]


_ENTRY = "_Z19inductor_entry_implPP16AtenTensorOpaqueS1_"
"""The mangled name of `inductor_entry_impl(AtenTensorHandle*, AtenTensorHandle*)`."""
Call: TypeAlias = Callable[[list[Any], list[Tensor]], Sequence[Any]]
"""Maps the leaves that are used and the weights to the outputs of a graph."""


def compile_with_inductor(graph: fx.GraphModule, values: list[Any], mode: Any, cpu: bool) -> Call:
    """Compiles a graph for fake inputs of one fake tensor mode."""
    from torch._inductor import config
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._inductor.virtualized import V

    settings = {"cpp_wrapper": cpu, "aot_inductor.custom_ops_to_c_shims": inductor_c_shims()}
    with tracing(TracingContext(mode)), V.set_fake_mode(mode), config.patch(settings):
        call: Any = compile_fx_inner(graph, values, cpp_wrapper=cpu, is_inference=True)
    # The wrapper's remaining work only serves graphs that are tuned while they run.
    inner = call.current_callable if cpu else call
    alone = cpu and not getattr(call, "constants", None)  # the wrapper passes constants too
    for cell in inner.__closure__ or () if alone else ():
        if hasattr(getattr(cell.cell_contents, "__self__", None), "__file__"):
            return RawInductorCall(cell.cell_contents)
    return lambda inputs, weights: inner([*inputs, *weights])


class RawInductorCall:
    """Calls the machine code of a graph as torch does, but makes the tensor of each integer only once."""

    def __init__(self, code: Any) -> None:
        self.code = code

    def __call__(self, inputs: list[Any], weights: list[Tensor]) -> Sequence[Any]:
        """Returns the outputs of the graph."""
        tensors = [one if isinstance(one, Tensor) else _scalar(one) for one in inputs]
        made = self.code(torch._C._aoti.unsafe_alloc_void_ptrs_from_tensors(tensors + weights))
        found: Sequence[Any] = torch._C._aoti.alloc_tensors_by_stealing_from_void_ptrs(made)
        return found


@lru_cache(maxsize=4096)
def _scalar(value: int) -> Tensor:
    """Returns an integer as the tensor that compiled code reads and never keeps."""
    return torch.tensor(value)


def entry_point(call: Call) -> int | None:
    """Returns the address of the code of a graph, for callers in C++; None if it is unknown."""
    if not isinstance(call, RawInductorCall):
        return None
    entry = getattr(ctypes.CDLL(call.code.__self__.__file__), _ENTRY, None)
    return None if entry is None else ctypes.cast(entry, ctypes.c_void_p).value


Function = Callable[..., list[Any]]
"""Maps leaves to leaves."""

TensorType: TypeAlias = tuple[Any, ...]
"""Dtype and symbolic sizes: tensors with equal types always have equal sizes; empty for an integer."""

_settings: Any = _config
_trace_lock = threading.Lock()
"""Only one thread may trace at a time, because torch's flag for tracing holds for the whole process."""


class CompiledGraph:
    """One function compiled for leaves of one kind; sizes and integers may change as far as `fits` allows."""

    def __init__(self, function: Function, leaves: Sequence[Any], same: Sequence[int], cpu: bool) -> None:
        """same: for each leaf the index of the first that always is the same integer, or its own index."""
        own = [index for index, first in enumerate(same) if index == first]
        with _trace_lock, torch.compiler._compile_session_context(), _settings.patch(use_duck_shape=False):
            graph = _trace(lambda *inputs: function(*_repeat_same(inputs, own, same)), [leaves[index] for index in own])
            weights = _lift_weights(graph)
            integers = _take_out_integers(graph)
            mutated = _mutated_inputs(graph)
            self.input_types, self.output_types = _tensor_types(graph, own)
            used, values, sizes = _prune(graph, own, [*(leaves[index] for index in own), *weights])
            left = [own[index] for index in used if index < len(own)]
            dense = [index for index in left if isinstance(leaves[index], Tensor) and leaves[index].is_contiguous()]
            mode = _mode(values)
            known = dict(mode.shape_env.replacements)
            self._call = compile_with_inductor(graph, values, mode, cpu)
            # Only now: inductor adds guards of its own.
            self.fits = compile_guards(mode.shape_env, known, sizes, same, dense)
            self.integers = compile_integers(integers, sizes)
        self.integer_outputs = list(integers)
        """Indices of the outputs that are integers, which `integers` computes from the leaves."""
        self.used = left
        """Indices of the leaves that the code takes, in order, before the weights."""
        self.entry = entry_point(self._call)
        """The address of the code, for callers in C++; None if it is unknown."""
        self.mutated = [own[index] for index in mutated if index < len(own)]
        """Indices of the leaves that are changed in place."""
        self.weights = [weights[index - len(own)] for index in used if index >= len(own)]

    def __call__(self, leaves: Sequence[Any]) -> list[Any]:
        """Returns the outputs of the function."""
        outputs = list(self._call([leaves[index] for index in self.used], self.weights))
        for index, value in zip(self.integer_outputs, self.integers(leaves), strict=True):
            outputs.insert(index, value)
        return outputs


def _repeat_same(inputs: Sequence[Any], own: Sequence[int], same: Sequence[int]) -> list[Any]:
    """Returns all leaves, given those that differ."""
    by_index = dict(zip(own, inputs, strict=True))
    return [by_index[first] for first in same]


class _FlattenLinear(TorchFunctionMode):
    """Calls linear layers on flattened rows: with more axes torch reads sizes as integers and specialises the trace."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is not F.linear or args[0].dim() < 3:
            return func(*args, **(kwargs or {}))
        x, *rest = args
        return func(x.flatten(0, -2), *rest, **(kwargs or {})).unflatten(0, x.shape[:-1])


def _trace(function: Function, leaves: Sequence[Any]) -> fx.GraphModule:
    """Traces a function to a functional graph whose only mutations are copies into the leaves at its end."""
    from torch._inductor.decomposition import select_decomp_table

    def flattened(*inputs: Any) -> list[Any]:
        with _FlattenLinear():
            return function(*inputs)

    pure = torch.func.functionalize(flattened, remove="mutations")
    trace = make_fx(pure, select_decomp_table(), tracing_mode="symbolic", _allow_non_fake_inputs=True)
    graph: fx.GraphModule = trace(*leaves)
    return graph


def _lift_weights(graph: fx.GraphModule) -> list[Tensor]:
    """Turns the parameters and buffers that the function read into inputs of the graph, and returns them."""
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


def _take_out_integers(graph: fx.GraphModule) -> dict[int, str]:
    """Removes integers from the outputs of a graph and returns their expressions by index: Python is faster at them."""
    end = next(node for node in graph.graph.nodes if node.op == "output")
    outputs = list(end.args[0])
    integers = {}
    for index, one in enumerate(outputs):
        value = one.meta.get("val") if isinstance(one, fx.Node) else one
        if isinstance(value, torch.SymInt):
            if free_unbacked_symbols(value):
                raise ValueError("an integer depends on the values of a tensor")
            integers[index] = python_expression(value)
        elif isinstance(value, int):
            integers[index] = str(value)
    end.args = ([one for index, one in enumerate(outputs) if index not in integers],)
    return integers


def _mutated_inputs(graph: fx.GraphModule) -> list[int]:
    """Returns the indices of the inputs that the graph changes in place."""
    inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
    copied = {node.args[0] for node in graph.graph.nodes if node.target is torch.ops.aten.copy_.default}
    return [index for index, node in enumerate(inputs) if node in copied]


def _tensor_types(graph: fx.GraphModule, own: Sequence[int]) -> tuple[dict[int, TensorType], list[TensorType]]:
    """Returns the tensor types of leaves by their index, and those of the tensors that the graph returns."""
    inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
    taken = {index: _tensor_type(node.meta.get("val")) for index, node in zip(own, inputs, strict=False)}
    end = next(node for node in graph.graph.nodes if node.op == "output")
    return taken, [_tensor_type(node.meta.get("val")) for node in end.args[0]]


def _tensor_type(value: Any) -> TensorType:
    if not isinstance(value, Tensor):
        return ()
    return (value.dtype, *map(python_expression, value.shape))


def _prune(
    graph: fx.GraphModule, own: Sequence[int], inputs: Sequence[Any]
) -> tuple[list[int], list[Any], dict[str, list[str]]]:
    """Removes unused inputs of a graph.

    Returns the indices of the inputs that are left, their fake values, and for each symbol or size the expressions that
    read it from the leaves; strides are among them where a tensor is not contiguous.
    """
    graph.graph.eliminate_dead_code()
    nodes = [node for node in graph.graph.nodes if node.op == "placeholder"]
    mode = _mode(node.meta.get("val") for node in nodes)
    used: list[int] = []
    values: list[Any] = []
    sizes: dict[str, list[str]] = {}
    for index, (node, one) in enumerate(zip(nodes, inputs, strict=True)):
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt):
            sizes.setdefault(python_expression(value), []).append(f"leaves[{own[index]}]")
        elif isinstance(value, Tensor):
            for axis, size in enumerate(value.shape):
                sizes.setdefault(python_expression(size), []).append(f"shape_{own[index]}[{axis}]")
            if not one.is_contiguous():
                for axis, stride in enumerate(value.stride()):
                    if one.shape[axis] > 1:
                        sizes.setdefault(python_expression(stride), []).append(f"leaves[{own[index]}].stride({axis})")
        if not node.users:
            graph.graph.erase_node(node)
            continue
        if value is None:
            value = node.meta["val"] = mode.from_tensor(one, static_shapes=True) if isinstance(one, Tensor) else one
        used.append(index)
        values.append(value)
    graph.recompile()
    return used, values, sizes


def _mode(values: Iterable[Any]) -> Any:
    """Returns the fake tensor mode of the values."""
    return next(value.fake_mode for value in values if isinstance(value, FakeTensor))
