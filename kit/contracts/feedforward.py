"""The contract of a feed-forward layer: each token by itself, unless the part says otherwise."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from kit.contracts.part import Part
from kit.scope import Scope
from kit.state import NoState, State


class Feedforward(Part):
    """What a layer does besides attending. Override `transform`, or `forward` and `start` where neighbours matter."""

    kind = "feedforward"

    mixes_tokens: ClassVar[bool] = False
    """Whether a token's result depends on its neighbours."""
    regroups_tokens: ClassVar[bool] = False
    """Whether other tokens decide with how many a token is multiplied at once. Some processors' libraries round by that
    number, so that the last bit of a result may depend on them; nothing else may."""

    def transform(self, x: Tensor) -> Tensor:
        """x: [..., width], each token by itself; returns the same shape."""
        raise NotImplementedError(f"{type(self).__name__} must define transform(x), or forward(x, scope, state)")

    def forward(self, x: Tensor, scope: Scope, state: State | None = None) -> Tensor:
        """The whole layer; `scope.queries` says how the tokens of `x` lie."""
        return self.transform(x)

    def value_path(self) -> list[Tensor]:
        """The weight matrices that carry values to the output; some residuals scale them."""
        return [parameter for parameter in self.parameters() if parameter.dim() > 1]

    def start(self) -> State:
        """What it remembers between steps, empty."""
        return NoState()
