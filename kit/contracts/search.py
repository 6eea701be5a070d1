"""Search contract: decodes sequences with a model that gives the logits of the next token.

Shapes: B prompts, R rows of the decoder, L tokens read at once, D width, V vocabulary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import torch
from pydantic import Field, PositiveInt
from torch import Tensor

from kit.contracts.constraint import Constraint
from kit.contracts.tokenizer import Special
from kit.plugin.component import Component, ConstraintSlot, Options
from kit.sequence.batch_layout import TokenBatch


class Decoder(Protocol):
    """Gives logits to a search: the decoding session of a model, or a table of probabilities in tests."""

    @property
    def rows(self) -> int:
        """The current number of rows."""

    @property
    def device(self) -> torch.device:
        """The device that tokens are wanted on."""

    def step(self, tokens: TokenBatch | Tensor, last: bool = False) -> Tensor:
        """Reads tokens [R, L] after those read before; returns the logits after each, [R, L, V].

        last: only the logits after the last real token of each row, [R, 1, V]. The caller may change logits in place.
        Padding is not read.
        """

    def reorder(self, rows: Tensor) -> None:
        """Selects rows in a new order; a row may occur several times or not at all."""


@dataclass(frozen=True)
class SpecialTokenIds:
    """The ids of tokens that a search treats specially."""

    start: int = Special.START
    """The token that is read first if there is no prompt."""
    end: int = Special.END
    """The token that ends a sequence."""
    suppressed: tuple[int, ...] = (Special.PADDING, Special.START, Special.MASK, Special.SEPARATOR)
    """Tokens that are never generated, because they occur in no text."""


@dataclass(frozen=True)
class Request:
    """One call of a search: prompts, limits and constraints."""

    length: int | Sequence[int] = 256
    """The most tokens to generate, including the end token: for all prompts, or for each."""
    constraints: Sequence[Constraint] = ()
    """Constraints, applied in order."""
    prompt: TokenBatch | None = None
    """Tokens that are read first, at least one for each row; left out, the start token."""
    draft: Decoder | None = None
    """A draft model of the same prompts, for speculative decoding."""
    streams: Sequence[int] | None = None
    """A number for each prompt that its random numbers depend on; left out, its index in the batch."""
    special_tokens: SpecialTokenIds = field(default_factory=SpecialTokenIds)
    """The ids of special tokens."""


@dataclass(frozen=True)
class Hypothesis:
    """A generated sequence with its score."""

    tokens: list[int]
    """Its tokens, without the end token."""
    score: float
    """The score that it is ranked by: its log-probability, unless the search says otherwise."""
    finished: bool = True
    """Whether it has an end token; False if it was cut at the limit, or if constraints left no token."""


class SearchOptions(Options):
    """Options of every search."""

    length: PositiveInt = 256
    """The most tokens to generate, including the end token; a call may set a lower limit for each sequence."""
    constraints: list[ConstraintSlot] = Field(default_factory=list)
    """Constraints on what may be generated, applied in order."""


class Search(Component, ABC):
    """Decodes sequences with a decoder; built with its options alone."""

    kind = "search"

    needs_draft: ClassVar[bool] = False
    """Whether a request must have a draft decoder."""
    several: ClassVar[str] = ""
    """The option that sets the number of hypotheses for each prompt; empty if it is always one."""
    needs_vectors: ClassVar[bool] = False
    """Whether it reads hidden states of the last step, which a session has: `decoder.vectors`, [R, L, D]."""

    def __init__(self, options: Any) -> None:
        self.options: Any = options

    @torch.no_grad()
    def search(self, decoder: Decoder, request: Request | None = None) -> list[list[Hypothesis]]:
        """Returns the hypotheses for each prompt, the best first; at least one, which may be empty."""
        request = Request() if request is None else request
        if (decoder.rows if request.prompt is None else request.prompt.ids.shape[0]) == 0:
            return []
        return self.run(decoder, request)

    @abstractmethod
    def run(self, decoder: Decoder, request: Request) -> list[list[Hypothesis]]:
        """Implements `search` for at least one prompt; called without gradients."""
