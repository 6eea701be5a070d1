"""Constraint contract: changes log-probabilities of the next token, given the tokens generated so far.

A constraint has no state between steps, so that any search may reorder, repeat and drop rows.
Shapes: R rows, T tokens generated so far, V vocabulary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic import NonNegativeInt
from torch import Tensor

from kit.errors import KitError
from kit.plugin.component import Component

Phrase: TypeAlias = str | list[NonNegativeInt]
"""A text, which the tokenizer of the target encodes, or token ids."""
Encode: TypeAlias = Callable[[str], Sequence[int]]


@dataclass(frozen=True)
class History:
    """The tokens that the rows of a search have generated so far."""

    tokens: Tensor
    """Generated tokens, [R, T], without the prompt or the start token."""
    texts: Tensor
    """The index of the prompt of each row in the request, [R]."""
    room: Tensor
    """How many more tokens each row may have, including the end token, [R]."""
    end: int
    """The token that ends a sequence."""

    @property
    def length(self) -> int:
        """The number of tokens of every row."""
        return self.tokens.shape[1]


class Constraint(Component, ABC):
    """Lowers log-probabilities of tokens or forbids them; built with its options alone."""

    kind = "constraint"

    def __init__(self, options: Any) -> None:
        self.options: Any = options

    def prepare(self, encode: Encode | None) -> None:
        """Encodes texts of the options; called once, before the first search, with the target's tokenizer."""

    def objections(self, vocabulary: int) -> Iterator[str]:
        """Yields what is wrong with the options for a vocabulary of this size, such as a token that does not exist."""
        yield from ()

    @abstractmethod
    def apply(self, scores_RV: Tensor, history: History) -> Tensor:
        """Returns changed log-probabilities of the next token, [R, V]; -inf forbids a token.

        The tensor may be changed in place. The result is not normalised, so that other tokens keep their scores.
        """

    def encoded(self, phrases: Sequence[Phrase], encode: Encode | None) -> list[list[int]]:
        """Returns the token ids of each phrase."""
        return [self._tokens(phrase, encode) for phrase in phrases]

    def _tokens(self, phrase: Phrase, encode: Encode | None) -> list[int]:
        if not isinstance(phrase, str):
            return list(phrase)
        if encode is None:
            raise KitError(
                f"the constraint {self.name()!r} names the text {phrase!r}, and there is no tokenizer to read it "
                f"with; call prepare(tokenizer.encode) first, or give the numbers of its tokens"
            )
        tokens = list(encode(phrase))
        if not tokens and phrase:
            raise KitError(f"the constraint {self.name()!r}: the tokenizer makes no token of the text {phrase!r}")
        return tokens


def only_token(scores_RV: Tensor, rows_R: Tensor, tokens_R: Tensor) -> Tensor:
    """Forbids all tokens but one in some rows; rows_R: whether a row is changed; tokens_R: the token that stays."""
    kept_R1 = scores_RV.gather(1, tokens_R[:, None])
    scores_RV = scores_RV.masked_fill(rows_R[:, None], float("-inf"))
    return scores_RV.scatter(1, tokens_R[:, None], kept_R1)


def hide_token(scores_RV: Tensor, rows_R: Tensor, token: int) -> Tensor:
    """Forbids one token in some rows; rows_R: whether a row is changed."""
    scores_RV[:, token] = scores_RV[:, token].masked_fill(rows_R, float("-inf"))
    return scores_RV
