"""Constraints by themselves, in every search, and after rows were chosen."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from models.searches import SEARCHES, make_search
from models.table_decoder import TableDecoder, ask
from models.tiny_models import KIT
from pydantic import ValidationError

from kit import Constraint, History, KitError, TokenBatch
from kit_constraint.allowed import AllowedConstraint, AllowedOptions
from kit_constraint.ending import EndingConstraint, EndingOptions
from kit_constraint.forbidden import ForbiddenConstraint, ForbiddenOptions
from kit_constraint.length import LengthConstraint, LengthOptions
from kit_constraint.ngrams import NgramsConstraint, NgramsOptions
from kit_constraint.prefix import PrefixConstraint, PrefixOptions
from kit_constraint.repetition import RepetitionConstraint, RepetitionOptions
from kit_constraint.required import RequiredConstraint, RequiredOptions

EVEN = {
    prefix: [0.3, 0.25, 0.2, 0.15, 0.1]
    for length in range(7)
    for prefix in [tuple((number // 4**place) % 4 for place in range(length)) for number in range(4**length)]
}
"""Tokens 0, 1, 3, 4 and the end, 2, the same at every step; prefixes are enumerated with 2 standing for 4."""
EVEN = {tuple(4 if token == 2 else token for token in prefix): row for prefix, row in EVEN.items()}


class SeenTable(TableDecoder):
    """A table that shows a vector for each token it reads, as contrastive search wants."""

    def step(self, tokens: TokenBatch | torch.Tensor, last: bool = False) -> torch.Tensor:
        angle_RL1 = TokenBatch.of(tokens).ids[:, :, None] * 0.4
        self.vectors = torch.cat([angle_RL1.cos(), angle_RL1.sin()], 2)
        return super().step(tokens, last)


def apply(constraint: Constraint, rows: list[list[int]], room: int = 9) -> list[list[int]]:
    """The tokens that each row may write next, of six."""
    tokens = torch.tensor(rows, dtype=torch.long).view(len(rows), -1)
    scores = torch.linspace(-1, -6, 6).repeat(len(rows), 1)
    texts = torch.arange(len(rows))
    found = constraint.apply(scores, History(tokens, texts, torch.full_like(texts, room), end=2))
    return [(row > -math.inf).nonzero()[:, 0].tolist() for row in found]


ALL = [0, 1, 2, 3, 4, 5]


def test_length() -> None:
    constraint = LengthConstraint(LengthOptions(minimum=1, maximum=2))
    assert apply(constraint, [[]]) == [[0, 1, 3, 4, 5]]
    assert apply(constraint, [[3]]) == [ALL]
    assert apply(constraint, [[3, 3], [4, 0]]) == [[2], [2]]
    with pytest.raises(ValidationError, match="the maximum 1 is below the minimum 2"):
        LengthOptions(minimum=2, maximum=1)


def test_ngrams() -> None:
    """1 2 1 2 1 4 1: after 1 came 2 and 4 in the first row, 5 and 0 in the second."""
    constraint = NgramsConstraint(NgramsOptions(size=2))
    assert apply(constraint, [[1, 3, 1, 3, 1, 4, 1], [1, 5, 0, 1, 0, 5, 1]]) == [[0, 1, 2, 5], [1, 2, 3, 4]]
    assert apply(constraint, [[1]]) == [ALL]
    three = NgramsConstraint(NgramsOptions(size=3))
    assert apply(three, [[1, 3, 4, 1, 3], [1, 3, 4, 1, 4]]) == [[0, 1, 2, 3, 5], ALL]
    assert apply(NgramsConstraint(NgramsOptions(size=1)), [[1, 4]]) == [[0, 2, 3, 5]]


def test_repetition() -> None:
    scores = torch.tensor([[-1.0, -2.0, -3.0], [-1.0, -2.0, -3.0]])
    tokens = torch.tensor([[1, 1], [0, 2]])
    history = History(tokens, torch.tensor([0, 1]), torch.tensor([9, 9]), end=2)
    found = RepetitionConstraint(RepetitionOptions(penalty=1.5)).apply(scores, history)
    assert found.tolist() == [[-1.0, -3.0, -3.0], [-1.5, -2.0, -4.5]]


def test_prefix() -> None:
    constraint = PrefixConstraint(PrefixOptions(tokens=[3, 4]))
    assert apply(constraint, [[], []]) == [[3], [3]]
    assert apply(constraint, [[3], [3]]) == [[4], [4]]
    assert apply(constraint, [[3, 4]]) == [ALL]
    each = PrefixConstraint(PrefixOptions(tokens=[[3], [4, 5], []]))
    assert apply(each, [[], [], []]) == [[3], [4], ALL]
    assert apply(each, [[3], [4], [0]]) == [ALL, [5], ALL]
    assert list(constraint.objections(4)) == ["it names the token 4, and the vocabulary ends at 3"]


def test_forbidden() -> None:
    constraint = ForbiddenConstraint(ForbiddenOptions(phrases=[[5], [3, 4], [3, 3, 0]]))
    assert apply(constraint, [[]]) == [[0, 1, 2, 3, 4]]
    assert apply(constraint, [[0, 3], [3, 3], [3, 0]]) == [[0, 1, 2, 3], [1, 2, 3], [0, 1, 2, 3, 4]]
    with pytest.raises(KitError, match="empty phrase"):
        ForbiddenConstraint(ForbiddenOptions(phrases=[[]])).prepare(None)


def test_ending() -> None:
    constraint = EndingConstraint(EndingOptions(tokens=[3, 4]))
    assert apply(constraint, [[0], [3]]) == [[0, 1, 3, 4, 5]] * 2
    assert apply(constraint, [[3, 4], [4, 3]]) == [ALL, [0, 1, 3, 4, 5]]
    assert [apply(constraint, [[0, 0]], room)[0] for room in (4, 3, 2, 1)] == [[0, 1, 3, 4, 5], [3], [4], [2]]
    alone = EndingConstraint(EndingOptions())
    assert apply(alone, [[0]], room=2) == [ALL]
    assert apply(alone, [[0]], room=1) == [[2]]


def test_allowed() -> None:
    constraint = AllowedConstraint(AllowedOptions(phrases=[[3, 4], [3], [5, 5, 0]]))
    assert apply(constraint, [[]]) == [[3, 5]]
    assert apply(constraint, [[3], [5], [0]]) == [[2, 4], [5], []]
    assert apply(constraint, [[3, 4], [5, 5]]) == [[2], [0]]


def test_texts_are_read_by_the_tokenizer() -> None:
    encode: Callable[[str], list[int]] = lambda text: ["abcdef".index(letter) for letter in text if letter != " "]  # noqa: E731
    constraint = AllowedConstraint(AllowedOptions(phrases=["de", [5]]))
    constraint.prepare(encode)
    assert apply(constraint, [[]]) == [[3, 5]]
    with pytest.raises(KitError, match="there is no tokenizer to read it with"):
        apply(ForbiddenConstraint(ForbiddenOptions(phrases=["a"])), [[]])
    with pytest.raises(KitError, match="makes no token of the text ' '"):
        PrefixConstraint(PrefixOptions(tokens=" ")).prepare(encode)


IN_EVERY_SEARCH: dict[str, tuple[Any, Callable[[list[int]], bool]]] = {
    "length": (LengthConstraint(LengthOptions(minimum=2, maximum=3)), lambda tokens: 2 <= len(tokens) <= 3),
    "ngrams": (NgramsConstraint(NgramsOptions(size=1)), lambda tokens: len(set(tokens)) == len(tokens)),
    "prefix": (PrefixConstraint(PrefixOptions(tokens=[4, 1])), lambda tokens: tokens[:2] == [4, 1]),
    "forbidden": (ForbiddenConstraint(ForbiddenOptions(phrases=[[0], [1, 1]])), lambda tokens: 0 not in tokens),
    "ending": (EndingConstraint(EndingOptions(tokens=[3, 4])), lambda tokens: tokens[-2:] == [3, 4]),
    "allowed": (AllowedConstraint(AllowedOptions(phrases=[[4, 4], [3]])), lambda tokens: tokens in ([4, 4], [3])),
    "repetition": (RepetitionConstraint(RepetitionOptions(penalty=3.0)), lambda tokens: True),
    "required": (
        RequiredConstraint(RequiredOptions(phrases=[[4], [1, 3]])),
        lambda tokens: 4 in tokens and (1, 3) in pairwise(tokens),
    ),
}
MAY_BE_CUT = ("ngrams", "prefix", "forbidden", "repetition", "required")


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("kind", IN_EVERY_SEARCH)
def test_every_search_obeys(name: str, kind: str) -> None:
    constraint, holds = IN_EVERY_SEARCH[kind]
    request = ask(length=5, constraints=[constraint], draft=TableDecoder(EVEN, EVEN))
    for hypotheses in make_search(*SEARCHES[name]).search(SeenTable(EVEN, EVEN), request):
        assert hypotheses
        for each in hypotheses:
            assert holds(each.tokens), each.tokens
            assert each.finished or kind in MAY_BE_CUT


def test_constraints_compose() -> None:
    constraints = [
        IN_EVERY_SEARCH["ngrams"][0],
        IN_EVERY_SEARCH["ending"][0],
        LengthConstraint(LengthOptions(minimum=3)),
    ]
    (found,) = make_search("beam", {"size": 3, "nbest": 3}).search(TableDecoder(EVEN), ask(constraints=constraints))
    assert found
    for each in found:
        assert each.tokens[-2:] == [3, 4]
        assert len(set(each.tokens)) == len(each.tokens) >= 3


def test_what_is_left_keeps_its_score() -> None:
    """Hiding tokens does not make the others likelier."""
    request = ask(constraints=[AllowedConstraint(AllowedOptions(phrases=[[3]]))])
    (found,) = make_search("greedy", {}).search(TableDecoder(EVEN), request)[0]
    assert found.score == pytest.approx(math.log(0.15 * 0.2), abs=1e-6)


def test_every_constraint_is_tried() -> None:
    assert {part.name for part in KIT.registry.components("constraint")} == set(IN_EVERY_SEARCH)
