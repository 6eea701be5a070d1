"""NoPE, no positional encoding: order is learned from a causal mask only (Haviv et al. 2022)."""

from __future__ import annotations

from typing import Literal

from kit import Options, Position


class NoneOptions(Options):
    """No positional encoding (NoPE)."""

    use: Literal["none"] = "none"


class NoPosition(Position):
    """Changes nothing."""

    options_type = NoneOptions
    relative = True
