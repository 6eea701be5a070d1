"""The contract of a search: which texts to write, given a decoder that says how likely each next token is.

Shapes: B texts, R rows that are being written, L tokens read at once, V choices.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import torch
from pydantic import Field, PositiveInt
from torch import Tensor

from kit.component import Component, Options
from kit.contracts.constraint import Constraint
from kit.contracts.tokenizer import Special
from kit.slots import ConstraintSlot
from kit.tokens import Tokens


class Decoder(Protocol):
    """What a search writes with: a session of a model, or in tests a table of probabilities."""

    @property
    def rows(self) -> int:
        """How many rows there are now."""

    @property
    def device(self) -> torch.device:
        """Where its tokens live."""

    def step(self, tokens: Tokens | Tensor, last: bool = False) -> Tensor:
        """Read tokens [R, L] after those read before; scores of the token after each, [R, L, V], of any scale.

        last: only those after the last real token of each row, [R, 1, V]. The scores are the caller's to write into.
        Tokens that are not valid are not read.
        """

    def select(self, rows: Tensor) -> None:
        """Keep these rows, in this order; a row may be chosen several times or dropped."""


@dataclass(frozen=True)
class Signs:
    """Tokens with a meaning for a search."""

    start: int = Special.START
    """What is read first where there is no prompt."""
    end: int = Special.END
    """What ends a text."""
    never: tuple[int, ...] = (Special.PADDING, Special.START, Special.MASK, Special.SEPARATOR)
    """What stands in no text and is never written."""


@dataclass(frozen=True)
class Request:
    """What a search is asked for."""

    length: int | Sequence[int] = 256
    """The most tokens to write, the end token counted: for all texts, or for each."""
    constraints: Sequence[Constraint] = ()
    """What restricts the search, applied in order."""
    prompt: Tokens | None = None
    """What every row reads before it writes, at least one token each; left out, the start token."""
    draft: Decoder | None = None
    """A cheaper decoder of the same texts, for searches that let one guess."""
    streams: Sequence[int] | None = None
    """A number for each text that its random numbers depend on; left out, its place in the batch."""
    signs: Signs = field(default_factory=Signs)
    """Tokens with a meaning."""


@dataclass(frozen=True)
class Hypothesis:
    """One text that a search found."""

    tokens: list[int]
    """What was written, without the end token."""
    score: float
    """What it was ranked by: its log-probability, unless the search says otherwise."""
    finished: bool = True
    """Whether it ended by itself; False where it was cut at the most tokens, or where no token was left to choose."""


class SearchOptions(Options):
    """What all searches have in common."""

    length: PositiveInt = 256
    """The most tokens to write for a text, the end token counted; who decodes may set a lower limit for each."""
    constraints: list[ConstraintSlot] = Field(default_factory=list)
    """What restricts the search, applied in order."""


class Search(Component, ABC):
    """Writes texts with a decoder; built with its options alone."""

    kind = "search"

    needs_draft: ClassVar[bool] = False
    """Whether a request must bring a draft decoder."""
    several: ClassVar[str] = ""
    """The option that says how many hypotheses to give for a text; empty where it is always one."""
    needs_vectors: ClassVar[bool] = False
    """Whether the decoder must show the vectors of its last step, as a session does: `decoder.vectors`, [R, L, D]."""

    def __init__(self, options: Any) -> None:
        self.options: Any = options

    @torch.no_grad()
    def search(self, decoder: Decoder, request: Request | None = None) -> list[list[Hypothesis]]:
        """For each text the hypotheses that were found, the best first; one at least, if only an empty one."""
        request = Request() if request is None else request
        if (decoder.rows if request.prompt is None else request.prompt.ids.shape[0]) == 0:
            return []
        return self.run(decoder, request)

    @abstractmethod
    def run(self, decoder: Decoder, request: Request) -> list[list[Hypothesis]]:
        """What `search` gives, for at least one text; called without gradients."""
