"""Turns a traced graph into machine code by torch's compiler, and calls it with as little as possible on the way."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import torch
from torch import Tensor, fx
from torch._guards import TracingContext, tracing

from kit.native.few import direct_calls

_ENTRY = "_Z19inductor_entry_implPP16AtenTensorOpaqueS1_"
"""What a C++ compiler calls `inductor_entry_impl(AtenTensorHandle*, AtenTensorHandle*)`."""
Call: TypeAlias = Callable[[list[Any], list[Tensor]], Sequence[Any]]
"""Leaves that are used, and weights, in; what a graph gives out."""


def compiled(graph: fx.GraphModule, values: list[Any], mode: Any, cpu: bool) -> Call:
    """The code of a graph for inputs like these stand-ins, which were made in this mode."""
    from torch._inductor import config
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._inductor.virtualized import V

    settings = {"cpp_wrapper": cpu, "aot_inductor.custom_ops_to_c_shims": direct_calls()}
    with tracing(TracingContext(mode)), V.set_fake_mode(mode), config.patch(settings):
        call: Any = compile_fx_inner(graph, values, cpp_wrapper=cpu, is_inference=True)
    # What the graph's own call does besides is for graphs that are tuned while they run.
    inner = call.current_callable if cpu else call
    alone = cpu and not getattr(call, "constants", None)  # which torch's own call hands over too
    for cell in inner.__closure__ or () if alone else ():
        if hasattr(getattr(cell.cell_contents, "__self__", None), "__file__"):
            return Native(cell.cell_contents)
    return lambda given, weights: inner([*given, *weights])


class Native:
    """Calls what a graph was compiled to, as torch does, but makes a tensor of each number once."""

    def __init__(self, code: Any) -> None:
        self.code = code

    def __call__(self, given: list[Any], weights: list[Tensor]) -> Sequence[Any]:
        """What the graph gives."""
        tensors = [one if isinstance(one, Tensor) else _number(one) for one in given]
        made = self.code(torch._C._aoti.unsafe_alloc_void_ptrs_from_tensors(tensors + weights))
        found: Sequence[Any] = torch._C._aoti.alloc_tensors_by_stealing_from_void_ptrs(made)
        return found


@lru_cache(maxsize=4096)
def _number(value: int) -> Tensor:
    """What code takes for a number, which it reads and never keeps."""
    return torch.tensor(value)


def address(call: Call) -> int | None:
    """Where the code of a graph begins, for callers that are not Python; None where that is not known."""
    if not isinstance(call, Native):
        return None
    entry = getattr(ctypes.CDLL(call.code.__self__.__file__), _ENTRY, None)
    return None if entry is None else ctypes.cast(entry, ctypes.c_void_p).value
