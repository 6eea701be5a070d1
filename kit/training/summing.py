"""What processes that share a part exchange: what each gives is summed, and so is what each owes to its input.

Megatron-LM (Shoeybi et al. 2019), section 3: the operators f and g.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed import ProcessGroup

from kit.contracts.feedforward import Feedforward
from kit.contracts.part import Part
from kit.contracts.position import Position
from kit.matrices import linear


def share_out(part: Part, ending: nn.Linear, group: ProcessGroup, share: int) -> None:
    """Have a part that holds one share give what the whole would; ending: the layer that makes its output."""
    ending.__class__ = WithoutBias
    # Whoever asks a feed-forward part for single tokens does not go through `forward`.
    name = "transform" if type(part).forward is Feedforward.forward else "forward"
    own: Callable[..., Tensor] = getattr(part, name)

    def whole(*given: Any) -> Tensor:
        entered = [same_to_all(each, group) if isinstance(each, Tensor) else each for each in given]
        with own_chance(share, entered[0].device) if part.training else nullcontext():
            out = own(*entered)
        total: Tensor = _Sum.apply(out, group)  # type: ignore[no-untyped-call]
        return total if ending.bias is None else total + ending.bias.to(total.dtype)

    setattr(part, name, whole)


def share_bias(position: Position, group: ProcessGroup) -> None:
    """Let a position learn from the heads of all processes what it adds to the scores of each."""
    own = position.bias

    def bias(q_at_BQ: Tensor, k_at_BK: Tensor) -> Tensor | None:
        added = own(q_at_BQ, k_at_BK)
        return None if added is None else same_to_all(added, group)

    setattr(position, "bias", bias)  # noqa: B010 (a method that is replaced, on this one object)


def same_to_all(x: Tensor, group: ProcessGroup) -> Tensor:
    """x itself, which is the same on all processes of a group; its gradient is the sum of theirs."""
    given: Tensor = _Same.apply(x, group)  # type: ignore[no-untyped-call]
    return given


class WithoutBias(nn.Linear):
    """A linear layer whose bias is added elsewhere."""

    def forward(self, x: Tensor) -> Tensor:
        """x: [..., I]; returns [..., O]."""
        return linear(x, self.weight)


@contextmanager
def own_chance(share: int, device: torch.device) -> Iterator[None]:
    """Random numbers inside differ between shares; after it all of them go on alike."""
    before = torch.get_rng_state()
    seed = int(torch.randint(1 << 62, ()))
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed + share)
        fresh = torch.get_rng_state()
        yield
        unused = device.type == "cpu" and torch.equal(fresh, torch.get_rng_state())
    if unused:  # then one process alone would have drawn nothing either
        torch.set_rng_state(before)


def _summed(x: Tensor, group: ProcessGroup) -> Tensor:
    total = x.detach().clone(memory_format=torch.contiguous_format)
    if total.numel():
        distributed.all_reduce(total, group=group)
    return total


class _Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: ProcessGroup) -> Tensor:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _summed(gradients[0], ctx.group), None


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: ProcessGroup) -> Tensor:
        return _summed(x, group)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0], None
