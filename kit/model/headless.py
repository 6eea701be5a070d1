"""What is left of an attention that has lost all of its heads: the bias of its output."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from kit.component import Dims, Site
from kit.contracts.attention import Abilities, Attention
from kit.scope import Scope
from kit.state import KeyValueState, MemoryState, State


class HeadlessAttention(Attention):
    """Looks at nothing; built in the place of any attention in heads whose site has kept none of them."""

    abilities = Abilities(branches=True, weights=False)

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        named = getattr(options, "output_bias", None)
        has_bias = getattr(options, "bias", False) if named is None else named
        self.bias = nn.Parameter(torch.zeros(dims.width)) if has_bias else None

    def forward(self, x: Tensor, memory: Tensor | None, scope: Scope, state: State | None = None) -> Tensor:
        """The same for every token."""
        if scope.watcher is not None:
            scope.watcher.without_weights(self.site, "all of its heads were taken out")
        nothing = torch.zeros_like(x)
        return nothing if self.bias is None else nothing + self.bias

    def start(self) -> State:
        """Empty, and it stays so."""
        return KeyValueState() if self.dims.memory is None else MemoryState()
