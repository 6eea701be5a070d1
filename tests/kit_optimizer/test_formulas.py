"""Optimizers against formulas written out by hand, and Muon against torch's."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from kit import parameter_groups
from kit_optimizer.muon import orthogonalize

from .parts import optimizer

Step = Callable[[Tensor, Tensor, dict[str, Any], int, bool], Tensor]


def adam(
    p: Tensor, g: Tensor, s: dict[str, Any], n: int, learning_rate: float, betas: tuple[float, float], epsilon: float
) -> Tensor:
    s["m"] = betas[0] * s.get("m", 0) + (1 - betas[0]) * g
    s["v"] = betas[1] * s.get("v", 0) + (1 - betas[1]) * g * g
    return p - learning_rate * (s["m"] / (1 - betas[0] ** n)) / ((s["v"] / (1 - betas[1] ** n)).sqrt() + epsilon)


def adamw_step(p: Tensor, g: Tensor, s: dict[str, Any], n: int, decays: bool) -> Tensor:
    return adam(p * (1 - 0.01 * 0.1 * decays), g, s, n, 0.01, (0.8, 0.95), 1e-6)


def adam_step(p: Tensor, g: Tensor, s: dict[str, Any], n: int, decays: bool) -> Tensor:
    return adam(p, g, s, n, 0.01, (0.9, 0.98), 1e-9)


def lion_step(p: Tensor, g: Tensor, s: dict[str, Any], n: int, decays: bool) -> Tensor:
    m = s.get("m", torch.zeros_like(g))
    s["m"] = 0.99 * m + 0.01 * g
    return p - 0.01 * (torch.sign(0.9 * m + 0.1 * g) + 0.1 * decays * p)


def sgd_step(p: Tensor, g: Tensor, s: dict[str, Any], n: int, decays: bool) -> Tensor:
    g = g + 0.1 * decays * p
    s["b"] = g if n == 1 else 0.9 * s["b"] + g
    return p - 0.01 * (g + 0.9 * s["b"])


def adafactor_step(p: Tensor, g: Tensor, s: dict[str, Any], n: int, decays: bool) -> Tensor:
    keep, square = 1 - n**-0.8, g * g
    scale = max(1e-3, math.sqrt(float((p * p).mean()))) * min(0.05, 1 / math.sqrt(n))
    p = p * (1 - 0.05 * 0.1 * decays)
    if g.ndim == 2:
        s["r"] = keep * s.get("r", 0) + (1 - keep) * square.mean(1)
        s["c"] = keep * s.get("c", 0) + (1 - keep) * square.mean(0)
        mean = torch.outer(s["r"], s["c"]) / s["r"].mean()
    else:
        s["v"] = mean = keep * s.get("v", 0) + (1 - keep) * square
    update = g / mean.sqrt()
    return p - scale * update / max(1.0, math.sqrt(float((update * update).mean())))


CASES: list[tuple[str, dict[str, Any], Step]] = [
    ("adamw", {"learning_rate": 0.01, "betas": (0.8, 0.95), "epsilon": 1e-6, "weight_decay": 0.1}, adamw_step),
    (
        "adamw",
        {"learning_rate": 0.01, "betas": (0.8, 0.95), "epsilon": 1e-6, "weight_decay": 0.1, "fused": False},
        adamw_step,
    ),
    ("adam", {"learning_rate": 0.01}, adam_step),
    ("lion", {"learning_rate": 0.01, "weight_decay": 0.1}, lion_step),
    ("sgd", {"learning_rate": 0.01, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}, sgd_step),
    ("adafactor", {"learning_rate": 0.05, "weight_decay": 0.1}, adafactor_step),
]


@pytest.mark.parametrize(("use", "options", "formula"), CASES)
def test_ten_steps_follow_the_formula(use: str, options: dict[str, Any], formula: Step) -> None:
    torch.manual_seed(0)
    model = nn.Linear(5, 3).double()
    built = optimizer(use, **options).build(parameter_groups(model))
    wanted = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    states: dict[str, dict[str, Any]] = {name: {} for name in wanted}
    for number in range(1, 11):
        for name, parameter in model.named_parameters():
            parameter.grad = torch.randn_like(parameter)
            wanted[name] = formula(wanted[name], parameter.grad, states[name], number, name == "weight")
        built.step()
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(parameter.detach(), wanted[name], rtol=1e-10, atol=1e-12)


def orthogonal(update: Tensor) -> Tensor:
    left, values, right = torch.linalg.svd(update / update.norm(), full_matrices=False)
    for _ in range(5):
        values = 3.4445 * values - 4.7750 * values**3 + 2.0315 * values**5
    return left @ torch.diag(values) @ right


@pytest.mark.parametrize("scale", ["adamw", "shape"])
@pytest.mark.parametrize("shape", [(6, 4), (4, 6)], ids=str)
def test_muon_steps_matrices_by_an_orthogonal_momentum_and_the_rest_by_adamw(
    scale: str, shape: tuple[int, int]
) -> None:
    torch.manual_seed(0)
    model = nn.Linear(shape[1], shape[0]).double()
    built = optimizer("muon", learning_rate=0.1, rest_rate=0.01, weight_decay=0.1, scale=scale).build(
        parameter_groups(model)
    )
    weight, bias = model.weight.detach().clone(), model.bias.detach().clone()
    momentum = torch.zeros_like(weight)
    state: dict[str, Any] = {}
    size = 0.2 * math.sqrt(6) if scale == "adamw" else math.sqrt(max(1.0, shape[0] / shape[1]))
    for number in range(1, 6):
        g, h = torch.randn_like(weight), torch.randn_like(bias)
        model.weight.grad, model.bias.grad = g, h
        momentum = 0.95 * momentum + 0.05 * g
        weight = weight * (1 - 0.1 * 0.1) - 0.1 * size * orthogonal(0.95 * momentum + 0.05 * g)
        bias = adam(bias, h, state, number, 0.01, (0.9, 0.999), 1e-8)
        built.step()
        torch.testing.assert_close(model.weight.detach(), weight, rtol=1e-9, atol=1e-10)
        torch.testing.assert_close(model.bias.detach(), bias, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("scale", ["adamw", "shape"])
def test_muon_is_torchs_where_that_computes_in_full_precision(monkeypatch: pytest.MonkeyPatch, scale: str) -> None:
    monkeypatch.setattr(Tensor, "bfloat16", lambda tensor: tensor.clone())
    ours, theirs = nn.Linear(5, 3, bias=False), nn.Linear(5, 3, bias=False)
    theirs.load_state_dict(ours.state_dict())
    built = optimizer("muon", learning_rate=0.1, weight_decay=0.1, scale=scale).build(parameter_groups(ours))
    adjust = "match_rms_adamw" if scale == "adamw" else "original"
    reference = torch.optim.Muon(theirs.parameters(), lr=0.1, weight_decay=0.1, adjust_lr_fn=adjust)
    for _ in range(5):
        ours.weight.grad = torch.randn(3, 5)
        theirs.weight.grad = ours.weight.grad.clone()
        built.step()
        reference.step()
        torch.testing.assert_close(ours.weight, theirs.weight, rtol=1e-5, atol=1e-6)


def test_an_orthogonalized_matrix_keeps_its_shape_and_loses_its_scale() -> None:
    for shape in ((64, 16), (16, 64), (32, 32)):
        made = orthogonalize(1e4 * torch.randn(shape, generator=torch.Generator().manual_seed(0)), 5)
        values = torch.linalg.svdvals(made)
        assert made.shape == shape and values.min() > 0.3 and values.max() < 1.3
    assert torch.equal(orthogonalize(torch.zeros(3, 4), 5), torch.zeros(3, 4))


def test_muon_serves_models_of_one_kind_of_parameter_alone() -> None:
    for model in (nn.Linear(3, 3, bias=False), nn.LayerNorm(3)):
        built = optimizer("muon", learning_rate=0.1).build(parameter_groups(model))
        before = copy.deepcopy(model.state_dict())
        model(torch.randn(2, 3)).square().sum().backward()
        built.step()
        assert any(not torch.equal(value, before[name]) for name, value in model.state_dict().items())
