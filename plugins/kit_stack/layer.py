"""One layer of a Transformer: attention, attention to a memory, feed-forward, joined by a residual part."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from kit import Attention, Dims, Feedforward, KeyValueState, MemoryState, NoState, Residual, Scope, States
from kit_stack.plan import LayerPlan


class TransformerLayer(nn.Module):
    """Up to three sublayers and the residual that joins them."""

    def __init__(self, plan: LayerPlan, dims: Dims) -> None:
        super().__init__()
        self.attention: Attention = plan.build("attention", dims)
        self.cross_attention: Attention | None = plan.build("cross_attention", dims)
        self.feedforward: Feedforward | None = plan.build("feedforward", dims)
        self.residual: Residual = plan.build("residual", dims)
        self.residual.initialise({name: getattr(self, name) for name in plan.sublayers})

    def forward(
        self, x: Tensor, scope: Scope, memory: Tensor | None, across: Scope | None, state: States | None
    ) -> Tensor:
        """x: the stream, as `scope.queries` carries it; `across` is the scope of the memory."""
        own, cross, feed = (None, None, None) if state is None else state.parts
        sublayers: list[Callable[[Tensor], Tensor]] = [lambda y: self.attention(y, None, scope, own)]
        attend, transform = self.cross_attention, self.feedforward
        if attend is not None and across is not None:
            sublayers.append(lambda y: attend(y, memory, across, cross))
        if transform is not None:
            sublayers.append(lambda y: transform(y, scope, feed))
        joined: Tensor = self.residual(x, sublayers)
        return joined

    def branches(self) -> bool:
        """Whether rows of one text can share a row of the state."""
        own, cross, feed = self.start().parts
        # A state that remembers more than keys and values may not know how to forget some of them.
        shared = self.attention.abilities.branches and type(own) is KeyValueState
        return shared and isinstance(cross, (MemoryState, NoState)) and isinstance(feed, NoState)

    def start(self) -> States:
        """Empty states of the sublayers."""
        parts = (self.attention, self.cross_attention, self.feedforward)
        return States([NoState() if part is None else part.start() for part in parts])
