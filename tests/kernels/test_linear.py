"""Products by the library that is quicker here are the products; where torch has to do it, it does."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from models.tiny_models import build, random_tokens
from torch import nn

from kit import linear, use_fast_linear
from kit.kernels import linear as linear_backend

needs_onednn = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="this torch brings no oneDNN"
)


@pytest.fixture(params=[True, False], ids=["onednn", "torch"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Both, whatever the processor."""
    monkeypatch.setattr(linear_backend, "prefers_onednn", lambda: request.param)
    return bool(request.param)


@needs_onednn
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(1, 8), (40, 8), (3, 50, 64), (2, 3, 100, 16)], ids=str)
def test_values_and_gradients_are_torchs(library: bool, shape: tuple[int, ...], bias: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    given = [torch.randn(size, generator=generator) for size in (shape, (24, shape[-1]), (24,))][: 3 if bias else 2]
    mine = [each.clone().requires_grad_() for each in given]
    theirs = [each.double().requires_grad_() for each in given]
    found, wanted = linear(*mine), F.linear(*theirs)
    assert found.shape == wanted.shape and (found - wanted).abs().max() < 1e-5
    back = torch.randn(wanted.shape, generator=generator)
    slopes = zip(
        torch.autograd.grad(found, mine, back), torch.autograd.grad(wanted, theirs, back.double()), strict=True
    )
    assert all(one.shape == other.shape and (one - other).abs().max() < 1e-4 for one, other in slopes)


@needs_onednn
def test_only_the_gradients_that_are_wanted_are_made(library: bool) -> None:
    x, weight, bias = torch.randn(40, 8), torch.randn(6, 8, requires_grad=True), torch.randn(6)
    linear(x, weight, bias).sum().backward()
    assert weight.grad is not None and x.grad is None and bias.grad is None
    turned = torch.randn(8, 40, requires_grad=True)
    linear(turned.t(), weight.detach()).sum().backward()
    assert turned.grad is not None and turned.grad.shape == (8, 40)


@needs_onednn
def test_what_torch_alone_can_do_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_backend, "prefers_onednn", lambda: True)
    x, weight = torch.randn(40, 8), torch.randn(6, 8)
    assert linear_backend.supports(x, weight)
    assert not linear_backend.supports(x[:2], weight), "a few rows"
    assert not linear_backend.supports(x.double(), weight.double())
    assert not linear_backend.supports(x.to("meta"), weight.to("meta"))
    with torch.autocast("cpu", torch.bfloat16):
        assert not linear_backend.supports(x, weight)
        assert linear(x, weight).dtype == torch.bfloat16
    slope = torch.func.grad(lambda given: linear(x, given).square().sum())(weight)
    assert (slope - 2 * (x @ weight.T).T @ x).abs().max() < 1e-3
    each = torch.func.vmap(lambda row: linear(row, weight))(x.view(2, 20, 8))
    assert (each.flatten(0, 1) - x @ weight.T).abs().max() < 1e-5


@needs_onednn
def test_a_model_that_was_sped_up_is_the_same_model(library: bool) -> None:
    model = build("encoder-decoder").float()
    given = {"source": random_tokens(3, 30), "target": random_tokens(3, 20)}
    before, weights = model(**given), {name: value.clone() for name, value in model.state_dict().items()}
    use_fast_linear(model)
    changed = [module for module in model.modules() if isinstance(module, nn.Linear) and type(module) is not nn.Linear]
    assert bool(changed) == library
    again = copy.deepcopy(model)
    for each in (model, again):
        assert (each(**given) - before).abs().max() < 1e-5
        assert all(torch.equal(value, weights[name]) for name, value in each.state_dict().items())
    again(**given).sum().backward()
    assert all(parameter.grad is None for parameter in model.parameters()), "a copy shares nothing"
