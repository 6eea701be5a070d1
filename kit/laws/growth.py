"""Counts the work and the memory of a pass without doing it, on the meta device, and how they grow with length."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from kit.model.blueprint import blueprint


class Work(TorchDispatchMode):
    """Adds up multiplications of matrix products, and every number that any operation writes."""

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


class Kept:
    """Adds up what a pass keeps for its gradients, each piece of memory once."""

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self._own = {id(parameter.untyped_storage()) for parameter in parameters}
        self._seen: dict[int, Any] = {}

    def __enter__(self) -> Kept:
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, lambda packed: packed)
        self._hooks.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._hooks.__exit__(*error)

    @property
    def bytes(self) -> int:
        """All of it."""
        return sum(storage.nbytes() for storage in self._seen.values())

    def _pack(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._seen and key not in self._own:
            self._seen[key] = storage
        return tensor


def exponent(lengths: Sequence[int], amounts: Sequence[float]) -> float:
    """The power of the length that the last two amounts grow by; 0 where there are none."""
    if not amounts[-2]:
        return 0.0
    return math.log(amounts[-1] / amounts[-2]) / math.log(lengths[-1] / lengths[-2])


def measure(part: Any, run: Callable[[int], Tensor], lengths: Sequence[int]) -> tuple[list[int], list[int]]:
    """Work and kept bytes of a pass forward and back, for each length."""
    work, kept = [], []
    for length in lengths:
        with blueprint(), Work() as count:
            with Kept(list(part.parameters())) as keeping:
                out = run(length)
            out.sum().backward()
        work.append(count.total)
        kept.append(keeping.bytes)
    return work, kept
