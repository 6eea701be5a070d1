"""Contrastive search against the formula of the paper, token by token, without any state."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from models.searches import sharpen
from models.table_decoder import LETTERS, TableDecoder, ask
from models.tiny_models import build

from kit import KitError, Request, Special, SpecialTokenIds, TokenBatch
from kit_search.contrastive import ContrastiveOptions, ContrastiveSearch


def by_hand(model: object, prompt: list[int], candidates: int, penalty: float, length: int) -> tuple[list[int], float]:
    """(1 - penalty) · p(v) - penalty · max over the context of the cosine, as the paper writes it."""
    written, score = list(prompt), 0.0
    never = torch.tensor([0, 1, 4, 5])

    def vectors(ids: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        session = model.start()  # type: ignore[attr-defined]
        scores = session.step(torch.tensor([ids]))[0, -1].log_softmax(-1)
        scores[never] = -torch.inf
        return scores, session.vectors[0]

    for _ in range(length):
        scores, context = vectors(written)
        values = {}
        for token in scores.topk(candidates).indices.tolist():
            new = vectors([*written, token])[1][-1]
            like = max(F.cosine_similarity(new, old, dim=0).item() for old in context)
            values[token] = (1 - penalty) * scores[token].exp().item() - penalty * like
        best = max(values, key=lambda token: values[token])
        score += scores[best].item()
        if best == Special.END:
            break
        written.append(best)
    return written[len(prompt) :], score


@pytest.mark.parametrize(("candidates", "penalty"), [(4, 0.6), (3, 0.9), (5, 0.0), (1, 0.6)])
def test_the_formula(candidates: int, penalty: float) -> None:
    model = sharpen(build("decoder", vocabulary=20))
    prompts = [[7, 8, 9], [11], [6, 6, 12, 13, 7]]
    search = ContrastiveSearch(ContrastiveOptions(candidates=candidates, penalty=penalty))
    found = search.search(model.start(), Request(length=8, prompt=TokenBatch.from_lists(prompts)))
    with torch.no_grad():
        for (ours,), prompt in zip(found, prompts, strict=True):
            tokens, score = by_hand(model, prompt, candidates, penalty, 8)
            assert ours.tokens == tokens
            assert ours.score == pytest.approx(score, abs=1e-8)


def test_a_decoder_without_vectors_is_refused() -> None:
    with pytest.raises(KitError, match="TableDecoder shows none"):
        ContrastiveSearch(ContrastiveOptions()).search(TableDecoder(LETTERS), ask())


class SeenTable(TableDecoder):
    """A table that shows a vector for each token it reads."""

    def step(self, tokens: TokenBatch | torch.Tensor, last: bool = False) -> torch.Tensor:
        angle_RL1 = TokenBatch.of(tokens).ids[:, :, None] * 0.4
        self.vectors = torch.cat([angle_RL1.cos(), angle_RL1.sin()], 2)
        return super().step(tokens, last)


class TwoTokens(SeenTable):
    """A table of two tokens, of which the second is the end."""

    end = 1


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0])
def test_a_vocabulary_of_two_tokens(penalty: float) -> None:
    """One token besides the end; more candidates are asked for than there are."""
    table = {(): [0.7, 0.3], (0,): [0.4, 0.6]}
    search = ContrastiveSearch(ContrastiveOptions(candidates=4, penalty=penalty))
    ((found,),) = search.search(TwoTokens(table), ask(special_tokens=SpecialTokenIds(start=99, end=1, suppressed=())))
    chances = {(): 0.3, (0,): 0.42, (0, 0): 0.28}
    assert found.finished
    assert found.score == pytest.approx(math.log(chances[tuple(found.tokens)]), abs=1e-6)


def test_an_end_that_comes_first_is_an_empty_text() -> None:
    """In one text of two; the other one goes on without it."""
    search = ContrastiveSearch(ContrastiveOptions(candidates=3, penalty=0.3))
    (first,), (second,) = search.search(SeenTable({(): [0.0, 0.0, 1.0]}, LETTERS), ask())
    assert (first.tokens, first.finished) == ([], True)
    assert first.score == pytest.approx(0.0, abs=1e-9)
    assert second == search.search(SeenTable(LETTERS), ask())[0][0] and second.tokens


def test_tokens_that_stand_in_no_text_are_never_written() -> None:
    table = {(): [0.9, 0.06, 0.04], (1,): [0.9, 0.0, 0.1], (1, 1): [0.9, 0.0, 0.1]}
    for penalty in (0.0, 0.6, 1.0):
        search = ContrastiveSearch(ContrastiveOptions(penalty=penalty))
        ((found,),) = search.search(
            SeenTable(table), ask(special_tokens=SpecialTokenIds(start=99, end=2, suppressed=(0,)))
        )
        assert found.finished and 0 not in found.tokens
