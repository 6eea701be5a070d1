"""No positions: the model sees a bag of tokens, or learns order from a causal mask (Haviv et al. 2022)."""

from __future__ import annotations

from typing import Literal

from kit import Options, Position


class NoneOptions(Options):
    """No positions at all."""

    use: Literal["none"] = "none"


class NoPosition(Position):
    """Leaves everything as it is."""

    options_type = NoneOptions
    relative = True
