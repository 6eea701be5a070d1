"""The options that recurrent stacks have in common."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PositiveInt

from kit import AttentionSlot, Dims, Options, Site


class RecurrentOptions(Options):
    """A stack that reads a text token by token; it needs no positions and no masks."""

    depth: PositiveInt = Field(default=1, le=1_000)
    """How many layers."""
    hidden: PositiveInt | None = None
    """Width of what a layer remembers, in each direction; left out, the model's width."""
    direction: Literal["both", "forward"] | None = None
    """Which way a text is read; left out, both ways in an encoder and forward in a decoder."""
    attention: AttentionSlot | None = None
    """How a decoder looks at the memory; needed in the decoder of an encoder-decoder, and only there."""
    feed: Literal["none", "input", "context"] = "none"
    """What attention gives back to the recurrence: nothing, so that a whole text is attended to at once (Luong et al.
    2015); what the step before gave, beside the token (their input feeding, section 3.3); or what the state of the step
    before found in the memory (Bahdanau et al. 2015)."""
    begin: Literal["mean", "zeros"] = "mean"
    """What a decoder with a memory remembers at first: a projection of the memory's mean (Sennrich et al. 2017), or
    nothing."""

    def width(self, dims: Dims) -> int:
        """The width of what a layer remembers, in each direction."""
        return self.hidden or dims.width

    def reads_both_ways(self, site: Site) -> bool:
        """Whether a text is read backward too."""
        return self.direction == "both" or (self.direction is None and not site.causal)
