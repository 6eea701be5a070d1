"""Cost counter: operations and saved bytes of a forward pass on the meta device, and their growth with the length."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from kit.model.builder import meta_init


@dataclass(frozen=True)
class Cost:
    """What one forward and backward pass takes at one length."""

    operations: int
    """FLOPs of GEMMs, and the elements that every other operation of the forward pass writes."""
    bytes: int
    """The size of the tensors saved for the backward pass."""
    calls: int
    """The number of calls of operations, which grows with the length where a part loops over it."""


class OperationCounter(TorchDispatchMode):
    """A dispatch mode that counts the FLOPs of GEMMs and the elements that every operation writes."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.total = 0
        self.calls = 0
        self.counts_elements = True
        """Whether written elements count. Not in a backward pass: the gradient of a slice is a tensor of the size of
        the whole with zeros elsewhere, so that a loop over slices would count the whole for each of them. What a
        backward pass computes besides is as large as what the forward pass wrote."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.calls += 1
        packet = func._overloadpacket
        if packet in flop_registry:
            self.total += flop_registry[packet](*args, **(kwargs or {}), out_val=out)
        if self.counts_elements and not func.is_view:
            self.total += sum(leaf.numel() for leaf in tree_leaves(out) if isinstance(leaf, Tensor))
        return out


class SavedTensors:
    """A context manager that counts the bytes of tensors saved for backward, each storage once."""

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self._own = {id(parameter.untyped_storage()) for parameter in parameters}
        self._seen: dict[int, Any] = {}

    def __enter__(self) -> SavedTensors:
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, lambda packed: packed)
        self._hooks.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._hooks.__exit__(*error)

    @property
    def bytes(self) -> int:
        """The bytes of all saved tensors."""
        return sum(storage.nbytes() for storage in self._seen.values())

    def _pack(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._seen and key not in self._own:
            self._seen[key] = storage
        return tensor


def exponent(lengths: tuple[int, int], amounts: tuple[float, float]) -> float:
    """Computes the exponent of the growth between two lengths; 0 without any cost."""
    return math.log(amounts[1] / amounts[0]) / math.log(lengths[1] / lengths[0]) if amounts[0] else 0.0


def measure(part: Any, run: Callable[[int], Tensor], length: int) -> Cost:
    """Measures a forward and backward pass at one length."""
    with meta_init(), OperationCounter() as count:
        with SavedTensors(list(part.parameters())) as saved:
            out = run(length)
        count.counts_elements = False
        out.sum().backward()
    return Cost(count.total, saved.bytes, count.calls)
