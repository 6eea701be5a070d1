"""What happens at the edges: no texts, empty and over-long ones, two tokens, an end that comes first."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from models.searches import SEARCHES, begin, make_search, sharpen
from models.table_decoder import TableDecoder, ask
from models.tiny_models import build

from kit import KitError, Request, SpecialTokenIds, TokenBatch
from kit_position.learned import LearnedOptions

ON_TABLES = [name for name in SEARCHES if not name.startswith("contrastive")]


def on_table(name: str, *tables: dict[tuple[int, ...], list[float]], **changes: Any) -> Any:
    request = ask(draft=TableDecoder(*tables), **changes)
    return make_search(*SEARCHES[name]).search(TableDecoder(*tables), request)


@pytest.mark.parametrize("name", SEARCHES)
def test_no_texts_give_no_hypotheses(name: str) -> None:
    assert make_search(*SEARCHES[name]).search(TableDecoder(), ask()) == []


@pytest.mark.parametrize("name", SEARCHES)
def test_an_empty_source_is_decoded_like_any_other(name: str) -> None:
    """A source of no tokens: the decoder sees an empty memory, and what it writes does not depend on the batch."""
    model = sharpen(build(vocabulary=12))
    sources = [[], [7, 8, 9]]
    found = []
    for chosen in ([0], [0, 1], [1]):
        tokens = TokenBatch.from_lists([sources[text] for text in chosen])
        request = Request(length=3, draft=begin(model, tokens), streams=chosen)
        found.append(make_search(*SEARCHES[name]).search(begin(model, tokens), request))
    for ours, truth in zip(found[1], (found[0][0], found[2][0]), strict=True):
        assert [each.tokens for each in ours] == [each.tokens for each in truth]
        assert [each.score for each in ours] == pytest.approx([each.score for each in truth], abs=1e-8)


def test_an_over_long_source_is_read_where_positions_have_no_end_and_refused_where_they_have() -> None:
    long = TokenBatch.from_lists([[7] * 100])
    assert make_search("greedy", {}).search(begin(build(), long), Request(length=3))
    with pytest.raises(KitError, match="shorten the sequence"):
        begin(build(position=LearnedOptions()), long)


def test_writing_past_the_last_position_is_refused() -> None:
    """The length of a request is the caller's choice; a model that cannot write so far says so."""
    model = build("decoder", position=LearnedOptions(), length=8)
    search = make_search("beam", {"size": 2})
    special_tokens = SpecialTokenIds(suppressed=(0, 1, 2, 4, 5))
    assert len(search.search(model.start(), Request(length=8, special_tokens=special_tokens))[0][0].tokens) == 8
    with pytest.raises(KitError, match="the learned table ends at 7"):
        search.search(model.start(), Request(length=10, special_tokens=special_tokens))


@pytest.mark.parametrize("name", ON_TABLES)
def test_a_vocabulary_of_two_tokens(name: str) -> None:
    """One token besides the end; a beam wider than the vocabulary."""
    table = {(): [0.7, 0.3], (0,): [0.4, 0.6]}
    request = ask(draft=TwoTokens(table), special_tokens=SpecialTokenIds(start=99, end=1, suppressed=()))
    (found,) = make_search(*SEARCHES[name]).search(TwoTokens(table), request)
    truth = {(): 0.3, (0,): 0.42, (0, 0): 0.28}
    assert found
    for each in found:
        assert each.finished
        assert tuple(each.tokens) in truth
    if name in ("beam", "exhaustive"):
        assert len({tuple(each.tokens) for each in found}) == 3


class TwoTokens(TableDecoder):
    """A table of two tokens, of which the second is the end."""

    end = 1


@pytest.mark.parametrize("name", ON_TABLES)
def test_an_end_that_comes_first_is_an_empty_text(name: str) -> None:
    found = on_table(name, {(): [0.0, 0.0, 1.0]}, {(): [0.0, 0.0, 1.0]})
    assert len(found) == 2
    for hypotheses in found:
        assert all(each.tokens == [] and each.finished for each in hypotheses)
        assert all(each.score == pytest.approx(0.0, abs=1e-9) for each in hypotheses)


@pytest.mark.parametrize("name", ON_TABLES)
def test_tokens_that_stand_in_no_text_are_never_written(name: str) -> None:
    tables = [{(): [0.9, 0.06, 0.04], (1,): [0.9, 0.0, 0.1], (1, 1): [0.9, 0.0, 0.1]}]
    for hypotheses in on_table(name, *tables, special_tokens=SpecialTokenIds(start=99, end=2, suppressed=(0,))):
        assert hypotheses
        assert all(0 not in each.tokens for each in hypotheses)


@pytest.mark.parametrize("name", SEARCHES)
def test_the_most_tokens_may_be_one(name: str) -> None:
    model = sharpen(build(vocabulary=12))
    tokens = TokenBatch.from_lists([[7, 8], [9]])
    request = Request(length=1, draft=begin(model, tokens))
    for hypotheses in make_search(*SEARCHES[name]).search(begin(model, tokens), request):
        assert all(len(each.tokens) + each.finished == 1 for each in hypotheses)


def test_facts_of_a_prompt_go_on() -> None:
    """Positions that a prompt brings are continued for what is written."""
    model = sharpen(build("decoder", position=LearnedOptions(), length=40))
    ids = torch.tensor([[7, 8, 9]])
    plain = make_search("beam", {}).search(model.start(), Request(length=6, prompt=TokenBatch(ids)))
    counted = TokenBatch(ids, None, {"position": torch.tensor([[0, 1, 2]])})
    assert make_search("beam", {}).search(model.start(), Request(length=6, prompt=counted)) == plain
    shifted = TokenBatch(ids, None, {"position": torch.tensor([[20, 21, 22]])})
    assert make_search("beam", {}).search(model.start(), Request(length=6, prompt=shifted)) != plain
