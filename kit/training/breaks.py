"""A measurement can be long: whoever is asked to stop meanwhile does not finish it, and all processes stop together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeAlias

from torch import nn
from torch.distributed.fsdp import FSDPModule

from kit.training.agreement import summed
from kit.training.interruption import GivenUp, Interruption
from kit.training.sharding import layers

Piece: TypeAlias = Callable[[bool], AbstractContextManager[None]]
"""Goes around each piece of a measurement; is told whether the model computes in it."""


class Unfinished(Exception):
    """Some process was asked to stop, so all of them gave up measuring, at the same point."""


def unbroken(computes: bool) -> AbstractContextManager[None]:
    """A piece of a measurement that nobody interrupts."""
    return nullcontext()


class Breaks:
    """Ends a measurement between its pieces, and inside of them where no other process waits for this one."""

    def __init__(self, interruption: Interruption, model: nn.Module) -> None:
        self.interruption = interruption
        self.model = model

    @contextmanager
    def piece(self, computes: bool) -> Iterator[None]:
        """One piece, and the question after it; Unfinished if any process was asked to stop."""
        try:
            # Layers that are spread are computed by all processes at once, so nobody leaves them alone.
            with self._asking() if computes and isinstance(self.model, FSDPModule) else self.interruption.giving_up():
                yield
        except GivenUp:
            pass
        self._ask()

    def _ask(self, *ignored: Any) -> None:
        if summed([float(self.interruption.asked())])[0]:
            raise Unfinished

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """All ask together each time that they have come to the last layer: writing a text takes many times."""
        handle = layers(self.model)[-1].register_forward_pre_hook(self._ask)
        try:
            yield
        finally:
            handle.remove()
