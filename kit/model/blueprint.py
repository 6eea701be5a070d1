"""Models without numbers: built and run on the meta device, where tensors have shapes only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

_DRAWS = frozenset({"normal_", "uniform_", "random_", "bernoulli_", "exponential_", "trunc_normal_"})


class _NoInitialisation(TorchFunctionMode):
    """Leaves out what would fill a tensor with first values: there are none here, and torch takes seconds to say so."""

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        filled = args[0] if args else (kwargs or {}).get("tensor")
        initialises = getattr(function, "__module__", None) == "torch.nn.init" or function.__name__ in _DRAWS
        if initialises and isinstance(filled, Tensor) and filled.is_meta:
            return filled
        return function(*args, **(kwargs or {}))


@contextmanager
def blueprint() -> Iterator[None]:
    """What is built within has shapes but no numbers."""
    with torch.device("meta"), _NoInitialisation():
        yield
