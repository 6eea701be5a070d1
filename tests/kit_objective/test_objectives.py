"""Each objective predicts what it says, on rows of any length, and the same however a batch is shared out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from models.tiny_models import build, random_tokens, section

from kit import Batch, Special, TokenBatch
from kit_head.classes import ClassesOptions as ClassesHead
from kit_mask.causal import CausalOptions as CausalMask
from kit_mask.prefix import PrefixOptions as PrefixMask
from kit_objective.causal import CausalObjective, CausalOptions
from kit_objective.classes import ClassesObjective, ClassesOptions
from kit_objective.masked import MaskedObjective, MaskedOptions
from kit_objective.prefix import PrefixObjective, PrefixOptions
from kit_objective.sequence import SequenceObjective, SequenceOptions

OPTIONS = {"dropout": 0.0}


def batch(source: TokenBatch | None, target: TokenBatch | None = None, labels: Any = None, **changes: Any) -> Batch:
    rows = next(side for side in (source, target) if side is not None).ids.shape[0]
    return Batch(source, target, labels, **{"step": 3, "indices": tuple(range(rows)), **changes})


def by_hand(scores_LV: torch.Tensor, gold_L: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(scores_LV, gold_L, reduction="sum")


def test_sequence_predicts_every_target_token_but_the_first():
    model, source, target = build(), random_tokens(5, 3, 4), random_tokens(4, 6, 2, seed=1)
    loss = SequenceObjective(SequenceOptions()).loss(model, batch(source, target))
    wanted = torch.zeros((), dtype=torch.float64)
    for row, (read, written) in enumerate(((5, 4), (3, 6), (4, 2))):
        ids = target.ids[row : row + 1, :written]
        wanted += by_hand(model(source.ids[row : row + 1, :read], ids[:, :-1])[0], ids[0, 1:])
    assert loss.num_predictions == 3 + 5 + 1
    assert torch.allclose(loss.total, wanted, rtol=1e-10)
    assert torch.allclose(loss.nll_sum, wanted, rtol=1e-10)


def test_causal_leaves_out_the_first_token_of_each_document():
    model = build("decoder")
    tokens = random_tokens(6, 6)
    apart = TokenBatch(tokens.ids, None, {"document": torch.tensor([[0, 0, 0, 1, 1, 1], [0, 1, 1, 1, 1, 1]])})
    objective = CausalObjective(CausalOptions())
    assert objective.loss(model, batch(tokens)).num_predictions == 10
    loss = objective.loss(model, batch(apart))
    assert loss.num_predictions == 8
    scores = model(apart.ids[:, :-1])
    kept = (apart.features["document"][:, 1:] == apart.features["document"][:, :-1]).reshape(-1)
    wanted = by_hand(scores.reshape(-1, 50)[kept], apart.ids[:, 1:].reshape(-1)[kept])
    assert torch.allclose(loss.total, wanted, rtol=1e-10)


def test_causal_counts_right_predictions_where_nothing_is_trained():
    model, tokens = build("decoder"), random_tokens(5, 3)
    loss = CausalObjective(CausalOptions()).loss(model, batch(tokens))
    guesses = [model(tokens.ids[row : row + 1, : size - 1])[0].argmax(1) for row, size in ((0, 5), (1, 3))]
    right = sum(int((guess == tokens.ids[row, 1 : len(guess) + 1]).sum()) for row, guess in enumerate(guesses))
    assert loss.correct is not None and int(loss.correct) == right
    assert CausalObjective(CausalOptions()).loss(model.train(), batch(tokens)).correct is None


def test_prefix_predicts_only_what_follows_the_separator():
    masks = (CausalMask(), PrefixMask())
    model = build("decoder", layer={"masks": masks[1:]})
    tokens = random_tokens(7, 5)
    lengths = torch.tensor([3, 2])
    prefix = torch.arange(7) < lengths[:, None]
    rows = TokenBatch(tokens.ids, tokens.padding_mask, {"prefix": prefix}, right_padded=True)
    loss = PrefixObjective(PrefixOptions()).loss(model, batch(rows))
    assert loss.num_predictions == 4 + 3
    wanted = torch.zeros((), dtype=torch.float64)
    for row, (size, given) in enumerate(((7, 3), (5, 2))):
        ids = tokens.ids[row : row + 1, :size]
        scores = model(TokenBatch(ids[:, :-1], None, {"prefix": prefix[row : row + 1, : size - 1]}))[0]
        wanted += by_hand(scores[given - 1 :], ids[0, given:])
    assert torch.allclose(loss.total, wanted, rtol=1e-10)


def test_a_text_is_divided_where_the_seed_and_the_step_say():
    objective, model = PrefixObjective(PrefixOptions(), seed=5), build("decoder")
    tokens = random_tokens(9, 9, 4)
    counts = [objective.predicts(3, index, size) for index, size in enumerate((9, 9, 4))]
    assert objective.loss(model, batch(tokens)).num_predictions == sum(counts)
    assert all(1 <= count < size for count, size in zip(counts, (9, 9, 4), strict=True))
    drawn = {objective.predicts(step, 0, 9) for step in range(100)}
    assert drawn == set(range(1, 9))


def test_classes_predict_one_thing_a_row():
    model = build("encoder", head=ClassesHead(classes=3), tie="none")
    tokens, labels = random_tokens(4, 6, 2), torch.tensor([2, 0, 1])
    loss = ClassesObjective(ClassesOptions(label_smoothing=0.2)).loss(model, batch(tokens, labels=labels))
    assert loss.num_predictions == 3
    wanted = F.cross_entropy(model(tokens), labels, reduction="sum", label_smoothing=0.2)
    assert torch.allclose(loss.total, wanted, rtol=1e-10)


class TestMasked:
    objective = MaskedObjective(MaskedOptions(), seed=7)

    def test_a_fixed_share_of_each_row_is_chosen_and_never_a_special_token(self):
        tokens = random_tokens(40, 20, 3, vocabulary=50)
        ids = tokens.ids.clone()
        ids[0, :10] = Special.START
        _, chosen = self.objective.mask(ids, tokens.padding_mask, batch(tokens), 50)
        assert chosen.sum(1).tolist() == [6, 3, 1]
        assert not chosen[ids < len(Special)].any()
        assert not chosen[~tokens.padding_mask].any()

    def test_eighty_ten_ten(self):
        ids = torch.full((500, 100), 20)
        seen, chosen = self.objective.mask(ids, None, batch(TokenBatch(ids)), 1000)
        fate = seen[chosen]
        shares = [(fate == Special.MASK).double().mean(), (fate == 20).double().mean()]
        assert shares[0] == pytest.approx(0.8, abs=0.02)
        assert shares[1] == pytest.approx(0.1, abs=0.02)
        assert (fate[(fate != Special.MASK)] >= len(Special)).all()
        assert torch.equal(seen[~chosen], ids[~chosen])

    def test_choices_depend_on_the_row_the_step_and_the_seed_alone(self):
        ids = torch.arange(6, 46).repeat(3, 1)
        seen, _ = self.objective.mask(ids, None, batch(TokenBatch(ids)), 50)
        alone, _ = self.objective.mask(ids[1:2], None, batch(TokenBatch(ids[1:2]), indices=(1,)), 50)
        assert torch.equal(alone[0], seen[1])
        assert not torch.equal(seen[0], seen[1])
        later, _ = self.objective.mask(ids, None, batch(TokenBatch(ids), step=4), 50)
        other, _ = MaskedObjective(MaskedOptions(), seed=8).mask(ids, None, batch(TokenBatch(ids)), 50)
        assert not torch.equal(later, seen) and not torch.equal(other, seen)

    def test_the_loss_is_over_what_was_chosen(self):
        model, tokens = build("encoder"), random_tokens(30, 12)
        given = batch(tokens)
        seen, chosen = self.objective.mask(tokens.ids, tokens.padding_mask, given, 50)
        loss = self.objective.loss(model, given)
        counts = [self.objective.predicts(3, index, size) for index, size in enumerate((30, 12))]
        assert loss.num_predictions == int(chosen.sum()) == sum(counts)
        scores = model(TokenBatch(seen, tokens.padding_mask))
        assert torch.allclose(loss.total, by_hand(scores[chosen], tokens.ids[chosen]), rtol=1e-10)

    def test_shares_of_more_than_the_whole_are_refused(self):
        with pytest.raises(ValueError, match="sum to more than 1"):
            MaskedOptions(mask_replace_prob=0.8, random_replace_prob=0.3)


@pytest.mark.parametrize("family", ["encoder-decoder", "decoder"])
def test_smoothing_pulls_on_the_total_alone(family):
    model = build(family)
    tokens = random_tokens(5, 3)
    if family == "decoder":
        plain, smooth = CausalObjective(CausalOptions()), CausalObjective(CausalOptions(label_smoothing=0.3))
        losses = [objective.loss(model, batch(tokens)) for objective in (plain, smooth)]
    else:
        plain, smooth = SequenceObjective(SequenceOptions()), SequenceObjective(SequenceOptions(label_smoothing=0.3))
        losses = [objective.loss(model, batch(random_tokens(4, 4), tokens)) for objective in (plain, smooth)]
    assert torch.equal(losses[0].nll_sum, losses[1].nll_sum)
    assert not torch.equal(losses[0].total, losses[1].total)


def test_a_vocabulary_is_known_to_the_masked_objective():
    assert section("encoder").vocabulary == 50
    ids = torch.full((50, 60), 20)
    seen, _ = MaskedObjective(MaskedOptions(mask_replace_prob=0.0, random_replace_prob=1.0)).mask(
        ids, None, batch(TokenBatch(ids)), 50
    )
    assert np.isin(seen.numpy(), range(len(Special), 50)).all()
