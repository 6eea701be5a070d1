"""Optimizers against formulas written out by hand, through checkpoints, and down a bowl."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor, nn

import kit_optimizer
from kit import Optimizer, ParameterGroup, parameter_groups
from kit.runs.tensors import read_tensors, write_tensors
from kit.runs.tree import decode, encode
from kit_optimizer.orthogonal import orthogonalized

PARTS: dict[str, Any] = {part.part_name(): part for part in kit_optimizer.kit_components()}


def optimizer(use: str, **options: Any) -> Optimizer:
    part = PARTS[use]
    built = part(part.options_type(use=use, **options))
    assert isinstance(built, Optimizer)
    return built


Step = Callable[[Tensor, Tensor, dict[str, Any], int, bool], Tensor]


def adam(
    p: Tensor, g: Tensor, s: dict[str, Any], n: int, rate: float, betas: tuple[float, float], epsilon: float
) -> Tensor:
    s["m"] = betas[0] * s.get("m", 0) + (1 - betas[0]) * g
    s["v"] = betas[1] * s.get("v", 0) + (1 - betas[1]) * g * g
    return p - rate * (s["m"] / (1 - betas[0] ** n)) / ((s["v"] / (1 - betas[1] ** n)).sqrt() + epsilon)


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
    ("adamw", {"rate": 0.01, "betas": (0.8, 0.95), "epsilon": 1e-6, "weight_decay": 0.1}, adamw_step),
    ("adamw", {"rate": 0.01, "betas": (0.8, 0.95), "epsilon": 1e-6, "weight_decay": 0.1, "fused": False}, adamw_step),
    ("adam", {"rate": 0.01}, adam_step),
    ("lion", {"rate": 0.01, "weight_decay": 0.1}, lion_step),
    ("sgd", {"rate": 0.01, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}, sgd_step),
    ("adafactor", {"rate": 0.05, "weight_decay": 0.1}, adafactor_step),
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
    built = optimizer("muon", rate=0.1, rest_rate=0.01, weight_decay=0.1, scale=scale).build(parameter_groups(model))
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
    built = optimizer("muon", rate=0.1, weight_decay=0.1, scale=scale).build(parameter_groups(ours))
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
        made = orthogonalized(1e4 * torch.randn(shape, generator=torch.Generator().manual_seed(0)), 5)
        values = torch.linalg.svdvals(made)
        assert made.shape == shape and values.min() > 0.3 and values.max() < 1.3
    assert torch.equal(orthogonalized(torch.zeros(3, 4), 5), torch.zeros(3, 4))


def test_muon_serves_models_of_one_kind_of_parameter_alone() -> None:
    for model in (nn.Linear(3, 3, bias=False), nn.LayerNorm(3)):
        built = optimizer("muon", rate=0.1).build(parameter_groups(model))
        before = copy.deepcopy(model.state_dict())
        model(torch.randn(2, 3)).square().sum().backward()
        built.step()
        assert any(not torch.equal(value, before[name]) for name, value in model.state_dict().items())


def a_model() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Embedding(11, 8), nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 4))


def train(model: nn.Module, built: torch.optim.Optimizer, start: int, count: int) -> None:
    for step in range(start, start + count):
        ids = torch.randint(11, (5,), generator=torch.Generator().manual_seed(step))
        built.zero_grad()
        model(ids).square().mean().backward()
        built.step()


@pytest.mark.parametrize("use", sorted(PARTS))
def test_a_resumed_optimizer_goes_on_bit_for_bit(tmp_path: Path, use: str) -> None:
    whole = a_model()
    reference = optimizer(use).build(parameter_groups(whole))
    train(whole, reference, 0, 10)
    first = a_model()
    built = optimizer(use).build(parameter_groups(first))
    train(first, built, 0, 4)
    encoded = encode(built.state_dict())
    write_tensors(tmp_path / "state.safetensors", encoded.tensors)
    stored = json.dumps(encoded.structure)
    resumed = a_model()
    resumed.load_state_dict(first.state_dict())
    built = optimizer(use).build(parameter_groups(resumed))
    built.load_state_dict(decode(json.loads(stored), read_tensors(tmp_path / "state.safetensors")))
    train(resumed, built, 4, 6)
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name


# Lion and Muon step by a fixed length: 400 steps have to be long enough together to cover the distance.
RATES = {"adamw": 0.05, "adam": 0.05, "adafactor": 0.1, "lion": 0.02, "muon": 0.1, "sgd": 0.05}


@pytest.mark.parametrize("use", sorted(PARTS))
def test_it_comes_down_a_bowl(use: str) -> None:
    """(x - target)² from 1 away, with a rate that falls evenly to 0: at least a thousand times lower."""
    torch.manual_seed(0)
    target = torch.randn(4, 4)
    model = nn.ParameterDict(
        {"matrix": nn.Parameter(target + torch.randn(4, 4)), "vector": nn.Parameter(torch.ones(4))}
    )
    decay = {} if use == "adam" else {"weight_decay": 0.0}
    built = optimizer(use, rate=RATES[use], **decay).build(parameter_groups(model))
    scheduler = torch.optim.lr_scheduler.LambdaLR(built, lambda step: 1 - step / 400)

    def loss() -> Tensor:
        return (model["matrix"] - target).square().sum() + model["vector"].square().sum()

    start = loss().item()
    for _ in range(400):
        built.zero_grad()
        loss().backward()
        built.step()
        scheduler.step()
    assert loss().item() < start / 1000


@pytest.mark.parametrize("use", ["adamw", "adam"])
def test_the_fused_step_is_used_on_the_cpu(use: str) -> None:
    built = optimizer(use).build(parameter_groups(nn.Linear(2, 2)))
    assert all(group["fused"] for group in built.param_groups)


def test_what_cannot_be_fused_is_not() -> None:
    meta = nn.Parameter(torch.empty(2, 2, device="meta"))
    built = optimizer("adamw").build([ParameterGroup(True, True, ["a"], [meta])])
    assert not built.param_groups[0]["fused"]


@pytest.mark.parametrize("use", sorted(PARTS))
def test_a_closure_is_called_once_with_gradients(use: str) -> None:
    model = nn.Linear(2, 2)
    built = optimizer(use).build(parameter_groups(model))
    calls = []

    def closure() -> float:
        calls.append(torch.is_grad_enabled())
        built.zero_grad()
        loss = model(torch.ones(1, 2)).sum()
        loss.backward()
        return loss.item()

    assert built.step(closure) is not None and calls == [True]


@pytest.mark.parametrize(
    ("use", "options", "word"),
    [("adamw", {"rate": 0}, "rate"), ("adamw", {"betas": (0.9, 1.0)}, "betas"),
     ("adam", {"weight_decay": 0.1}, "weight_decay"),
     ("sgd", {"nesterov": True, "momentum": 0}, "nesterov"), ("muon", {"scale": "keller"}, "scale")],
)  # fmt: skip
def test_wrong_options_are_refused(use: str, options: dict[str, Any], word: str) -> None:
    with pytest.raises(ValidationError, match=word):
        optimizer(use, **options)
