"""Cross entropy equals torch's own, and each way of smoothing the formula it is named after."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from kit_objective.cross_entropy import Smoothing, cross_entropy

N, V, PADDING = 7, 11, 0


def random_logits() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    values = 5 * torch.randn(N, V, generator=generator, dtype=torch.float64)
    return values.requires_grad_(), torch.randint(1, V, (N,), generator=generator)


def torch_formula(logits_NV: Tensor, labels_N: Tensor, amount: float) -> Tensor:
    """Over all classes, the label included."""
    return F.cross_entropy(logits_NV, labels_N, reduction="sum", label_smoothing=amount)


def fairseq_formula(logits_NV: Tensor, labels_N: Tensor, amount: float) -> Tensor:
    """(1 - e - e/(V-1)) times the log-likelihood of the label, e/(V-1) times the sum over all."""
    nll_NV = -logits_NV.log_softmax(1)
    each = amount / (V - 1)
    label_N = nll_NV.gather(1, labels_N[:, None])[:, 0]
    return ((1 - amount - each) * label_N + each * nll_NV.sum(1)).sum()


def joeynmt_formula(logits_NV: Tensor, labels_N: Tensor, amount: float) -> Tensor:
    """Cross entropy with a filled-in distribution: e/(V-2) everywhere, 0 at padding, 1 - e at the label."""
    smooth_NV = torch.full_like(logits_NV, amount / (V - 2)).detach()
    smooth_NV.scatter_(1, labels_N[:, None], 1 - amount)
    smooth_NV[:, PADDING] = 0
    return -(smooth_NV * logits_NV.log_softmax(1)).sum()


FORMULAS = {"all": torch_formula, "others": fairseq_formula, "others_but_padding": joeynmt_formula}


@pytest.mark.parametrize("amount", [0.0, 0.1, 0.6])
@pytest.mark.parametrize("spread", FORMULAS)
def test_smoothing_is_the_formula_it_is_named_after(spread, amount):
    ours, labels = random_logits()
    theirs, _ = random_logits()
    loss, nll = cross_entropy(ours, labels, Smoothing(amount, spread))
    wanted = FORMULAS[spread](theirs, labels, amount)
    assert torch.allclose(loss, wanted, rtol=1e-12)
    (3 * loss).backward()
    (3 * wanted).backward()
    assert torch.allclose(ours.grad, theirs.grad, atol=1e-12)
    assert torch.allclose(nll, F.cross_entropy(theirs, labels, reduction="sum"), rtol=1e-12)
    assert not nll.requires_grad


@pytest.mark.parametrize("spread", FORMULAS)
def test_smoothed_probabilities_sum_to_one(spread):
    right, other, padding = Smoothing(0.3, spread).probabilities(V)
    assert right + padding + (V - 2) * other == pytest.approx(1)


def test_half_precision_logits_are_summed_in_float32():
    values, labels = random_logits()
    half = values.detach().bfloat16().requires_grad_()
    loss, _ = cross_entropy(half, labels)
    assert loss.dtype == torch.float32
    loss.backward()
    assert half.grad is not None and half.grad.dtype == torch.bfloat16
    assert torch.allclose(loss, F.cross_entropy(half.detach().float(), labels, reduction="sum"), rtol=1e-6)


def test_no_predictions_have_a_loss_of_zero():
    empty = torch.zeros(0, V, requires_grad=True)
    loss, _ = cross_entropy(empty, torch.zeros(0, dtype=torch.long), Smoothing(0.1))
    assert loss.item() == 0


def test_a_large_logit_does_not_overflow():
    loss, _ = cross_entropy(torch.tensor([[1e4, -1e4, 0.0]]), torch.tensor([1]))
    assert loss.item() == 2e4


def test_overwritten_logits_hold_the_gradient():
    torch.manual_seed(0)
    x, table = torch.randn(300, 7, dtype=torch.float64), torch.randn(V, 7, dtype=torch.float64)
    labels = torch.randint(0, V, (300,))
    ours, theirs = (table.clone().requires_grad_() for _ in range(2))
    product = F.linear(x, ours)
    loss, _ = cross_entropy(product, labels, overwrite=True)
    wanted = F.cross_entropy(F.linear(x, theirs), labels, reduction="sum")
    for total in (loss, wanted):
        (total / 300).backward()
    assert torch.allclose(loss, wanted, rtol=1e-12)
    assert torch.allclose(ours.grad, theirs.grad, atol=1e-14)
    assert product.detach().sum().abs() < 1e-9  # the gradient of every row sums to zero
    with pytest.raises(RuntimeError, match="twice"):
        (loss / 300).backward()


def test_logits_are_not_overwritten_unless_asked():
    torch.manual_seed(0)
    ours = torch.randn(5, V, dtype=torch.float64, requires_grad=True)
    theirs = ours.detach().clone().requires_grad_()
    labels = torch.randint(0, V, (5,))
    capped = ours.tanh()  # whose gradient looks back at its result
    before = capped.detach().clone()
    cross_entropy(capped, labels)[0].backward()
    F.cross_entropy(theirs.tanh(), labels, reduction="sum").backward()
    assert torch.equal(capped, before)
    assert torch.allclose(ours.grad, theirs.grad, atol=1e-14)


def test_the_chunk_size_does_not_matter(monkeypatch):
    ours, labels = random_logits()
    whole = cross_entropy(ours, labels, Smoothing(0.1))
    monkeypatch.setattr("kit_objective.cross_entropy.CHUNK", 2 * V)
    apart = cross_entropy(ours, labels, Smoothing(0.1))
    assert torch.allclose(whole[0], apart[0], rtol=1e-12) and torch.allclose(whole[1], apart[1], rtol=1e-12)


def test_overwriting_logits_that_autograd_has_saved_is_an_error():
    logits = torch.randn(5, V, requires_grad=True).tanh()  # tanh reads its result in the backward pass
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        cross_entropy(logits, torch.randint(0, V, (5,)), overwrite=True)[0].backward()
