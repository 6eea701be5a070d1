"""Cost counter: operations and saved bytes of a forward pass on the meta device, and their growth with the length."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from kit.model.builder import meta_init


class OperationCounter(TorchDispatchMode):
    """A dispatch mode that counts the FLOPs of GEMMs and the elements that every operation writes."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        packet = func._overloadpacket
        if packet in flop_registry:
            self.total += flop_registry[packet](*args, **(kwargs or {}), out_val=out)
        if not func.is_view:
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


def exponent(lengths: Sequence[int], amounts: Sequence[float]) -> float:
    """Computes the exponent of the growth between the last two lengths; 0 without any cost."""
    if not amounts[-2]:
        return 0.0
    return math.log(amounts[-1] / amounts[-2]) / math.log(lengths[-1] / lengths[-2])


def measure(part: Any, run: Callable[[int], Tensor], lengths: Sequence[int]) -> tuple[list[int], list[int]]:
    """Counts operations of forward and backward and saved bytes, for each length."""
    operations, saved_bytes = [], []
    for length in lengths:
        with meta_init(), OperationCounter() as count:
            with SavedTensors(list(part.parameters())) as saved:
                out = run(length)
            out.sum().backward()
        operations.append(count.total)
        saved_bytes.append(saved.bytes)
    return operations, saved_bytes
