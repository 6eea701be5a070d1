"""What must occur somewhere occurs, at the last moment if need be."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
import torch
from models.searches import make_search
from models.table_decoder import LETTERS, TableDecoder, ask

from kit import History, KitError
from kit_constraint.ending import EndingConstraint, EndingOptions
from kit_constraint.length import LengthConstraint, LengthOptions
from kit_constraint.required import RequiredConstraint, RequiredOptions

END = 2
FREE = [0, 1, 3, 4, 5]
"""All tokens but the end."""


def required(*phrases: Any, within: int | None = None) -> RequiredConstraint:
    return RequiredConstraint(RequiredOptions(phrases=list(phrases), within=within))


def allowed(constraint: RequiredConstraint, written: list[int], room: int = 9) -> list[int]:
    tokens = torch.tensor([written], dtype=torch.long)
    history = History(tokens, torch.tensor([0]), torch.tensor([room]), END)
    found = constraint.apply(torch.linspace(-1, -6, 6)[None].clone(), history)
    return (found[0] > -math.inf).nonzero()[:, 0].tolist()


def test_the_end_is_hidden_until_all_is_there() -> None:
    constraint = required([3], [4, 5])
    assert allowed(constraint, []) == FREE
    assert allowed(constraint, [3, 4]) == FREE
    assert allowed(constraint, [4, 5, 0, 3]) == [0, 1, END, 3, 4, 5]
    assert allowed(constraint, [3, 5, 4]) == FREE, "another order is another phrase"


def test_what_is_missing_is_forced_when_just_enough_room_is_left() -> None:
    """Three tokens and the end."""
    constraint = required([3], [4, 5])
    assert allowed(constraint, [0], room=5) == FREE
    assert allowed(constraint, [0], room=4) == [3, 4]
    assert allowed(constraint, [0, 4], room=3) == [5], "3 would leave no room to begin anew"
    assert allowed(constraint, [0, 3], room=3) == [4]
    assert allowed(constraint, [0, 3, 4], room=2) == [5]
    assert allowed(constraint, [0, 3, 4, 5], room=1) == [0, 1, END, 3, 4, 5]


def test_what_is_begun_is_gone_on_with_where_it_could_not_be_begun_again() -> None:
    constraint = required([3, 4, 5])
    assert allowed(constraint, [3, 4], room=5) == FREE
    assert allowed(constraint, [3, 4], room=4) == [3, 5], "a 3 begins it anew, and there is room for that"
    assert allowed(constraint, [3, 4], room=3) == [5]


def test_phrases_that_repeat_themselves_or_hold_others() -> None:
    assert allowed(required([3, 3]), [3], room=2) == [3]
    assert allowed(required([3, 3, 4]), [3, 3], room=3) == [3, 4], "3 3 3 still ends as the phrase begins"
    assert allowed(required([3], [3, 4], [3]), [], room=4) == FREE, "3 is part of 3 4, and once is enough"
    assert allowed(required([3], [3, 4], [3]), [], room=3) == [3]


def test_too_little_room_gets_as_much_as_goes_in() -> None:
    constraint = required([3, 4], [5])
    assert allowed(constraint, [], room=2) == [3, 5]
    assert allowed(constraint, [3], room=1) == [4]


def test_within_so_many_tokens() -> None:
    constraint = required([3, 4], within=3)
    assert allowed(constraint, []) == FREE
    assert allowed(constraint, [0]) == [3]
    assert allowed(constraint, [0, 3]) == [4]
    assert allowed(constraint, [0, 0, 0, 0]) == [3], "too late, and still wanted"


def test_rows_have_their_own_room() -> None:
    tokens = torch.tensor([[0, 3], [3, 4], [0, 0]])
    history = History(tokens, torch.arange(3), torch.tensor([2, 2, 9]), END)
    found = required([3, 4]).apply(torch.full((3, 6), -1.0), history)
    assert [(row > -math.inf).nonzero()[:, 0].tolist() for row in found] == [[4], [0, 1, END, 3, 4, 5], FREE]


@pytest.mark.parametrize("seed", range(200))
def test_whatever_is_chosen_all_occurs_in_any_room_that_holds_it(seed: int) -> None:
    """Phrases at random, of few tokens so that they overlap, and choices at random among those that are left."""
    chance = random.Random(seed)
    phrases = [[chance.choice([0, 1, 3]) for _ in range(chance.randint(1, 4))] for _ in range(chance.randint(1, 4))]
    room = sum(map(len, phrases)) + 1 + chance.randint(0, 4)
    constraint, written = required(*phrases), list[int]()
    while len(written) < room:
        left = allowed(constraint, written, room - len(written))
        assert left, (phrases, written)
        token = chance.choice(left)
        if token == END:
            break
        written.append(token)
    text = "".join(map(str, written))
    assert all("".join(map(str, phrase)) in text for phrase in phrases), (phrases, written)


def test_the_best_text_that_has_it_is_found() -> None:
    """Of all texts of the table those with an A and a B: AAB .072, AB .06, ABA .06, BA .04."""
    request = ask(constraints=[required([0], [1])])
    (found,) = make_search("exhaustive", {"nbest": 9, "penalty": "none"}).search(TableDecoder(LETTERS), request)
    assert {tuple(each.tokens) for each in found if each.finished} == {(0, 0, 1), (0, 1), (0, 1, 0), (1, 0)}
    assert found[0].score == pytest.approx(math.log(0.072), abs=1e-6)


def test_it_goes_with_a_maximum_and_an_ending() -> None:
    table = {(): [0.9, 0.02, 0.02, 0.03, 0.03]}
    table |= {(*prefix, token): table[()] for prefix in _texts(5) for token in (0, 1, 3, 4)}
    constraints = [
        required([4, 4], within=3),
        EndingConstraint(EndingOptions(tokens=[1])),
        LengthConstraint(LengthOptions(maximum=4)),
    ]
    for name in ("greedy", "beam"):
        (found,) = make_search(name, {}).search(TableDecoder(table), ask(length=5, constraints=constraints))
        assert found[0].finished and found[0].tokens == [0, 4, 4, 1]


def _texts(length: int) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = [()]
    for prefix in found:
        if len(prefix) < length:
            found += [(*prefix, token) for token in (0, 1, 3, 4)]
    return found


def test_what_cannot_be_required_is_refused() -> None:
    assert list(required([3], [7, 3]).objections(6)) == ["it names the token 7, and the vocabulary ends at 5"]
    with pytest.raises(KitError, match="an empty phrase, which every text has; leave it out"):
        required([3], []).prepare(None)
    with pytest.raises(KitError, match="names the token 2, which ends a text"):
        allowed(required([3, END]), [])
