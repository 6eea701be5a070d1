"""The contract of a constraint on what a search may write: a function of what a row has written so far, for any search.

It keeps nothing between steps, so it follows a search that reorders, repeats and drops rows without being told.
Shapes: R rows that are being written, T tokens written so far, V choices.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic import NonNegativeInt
from torch import Tensor

from kit.component import Component
from kit.errors import KitError

Phrase: TypeAlias = str | list[NonNegativeInt]
"""A text, which the tokenizer of the target turns into tokens, or the numbers of tokens."""
Encode: TypeAlias = Callable[[str], Sequence[int]]


@dataclass(frozen=True)
class History:
    """What the rows of a search have written so far."""

    tokens: Tensor
    """[R, T], without the prompt or the start token."""
    texts: Tensor
    """[R]: which text of the request each row writes, counted from 0."""
    room: Tensor
    """[R]: how many tokens each row may still write, the end token counted."""
    end: int
    """The token that ends a text."""

    @property
    def length(self) -> int:
        """How many tokens every row has written."""
        return self.tokens.shape[1]


class Constraint(Component, ABC):
    """Lowers or hides choices; built with its options alone."""

    kind = "constraint"

    def __init__(self, options: Any) -> None:
        self.options: Any = options

    def prepare(self, encode: Encode | None) -> None:
        """Turn texts in the options into tokens; called once, before the first search, with the target's tokenizer."""

    def objections(self, vocabulary: int) -> Iterator[str]:
        """What stands against using it with this many tokens, such as a token that does not exist."""
        yield from ()

    @abstractmethod
    def apply(self, scores_RV: Tensor, history: History) -> Tensor:
        """Log-probabilities of the next token, changed; -inf hides a token.

        The tensor that is given may be written into. Nothing is normalised afterwards, so what is left keeps its score.
        """

    def encoded(self, phrases: Sequence[Phrase], encode: Encode | None) -> list[list[int]]:
        """The tokens of each phrase."""
        return [self._tokens(phrase, encode) for phrase in phrases]

    def _tokens(self, phrase: Phrase, encode: Encode | None) -> list[int]:
        if not isinstance(phrase, str):
            return list(phrase)
        if encode is None:
            raise KitError(
                f"the constraint {self.part_name()!r} names the text {phrase!r}, and there is no tokenizer to read it "
                f"with; call prepare(tokenizer.encode) first, or give the numbers of its tokens"
            )
        tokens = list(encode(phrase))
        if not tokens and phrase:
            raise KitError(f"the constraint {self.part_name()!r}: the tokenizer makes no token of the text {phrase!r}")
        return tokens


def only_token(scores_RV: Tensor, rows_R: Tensor, tokens_R: Tensor) -> Tensor:
    """Hide all but one token in some rows; rows_R: whether it concerns a row; tokens_R: the token that stays there."""
    kept_R1 = scores_RV.gather(1, tokens_R[:, None])
    scores_RV = scores_RV.masked_fill(rows_R[:, None], float("-inf"))
    return scores_RV.scatter(1, tokens_R[:, None], kept_R1)


def hide_token(scores_RV: Tensor, rows_R: Tensor, token: int) -> Tensor:
    """Hide one token in some rows."""
    scores_RV[:, token] = scores_RV[:, token].masked_fill(rows_R, float("-inf"))
    return scores_RV
