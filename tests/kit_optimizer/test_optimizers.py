"""Every optimizer through checkpoints, down a bowl, fused where it can be, and with its options refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor, nn

from kit import ParameterGroup, parameter_groups
from kit.checkpoints.state_codec import decode, encode
from kit.files.tensors import read_tensors, write_tensors

from .parts import PARTS, optimizer


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
    built = optimizer(use, learning_rate=RATES[use], **decay).build(parameter_groups(model))
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
    [("adamw", {"learning_rate": 0}, "rate"), ("adamw", {"betas": (0.9, 1.0)}, "betas"),
     ("adam", {"weight_decay": 0.1}, "weight_decay"),
     ("sgd", {"nesterov": True, "momentum": 0}, "nesterov"), ("muon", {"scale": "keller"}, "scale")],
)  # fmt: skip
def test_wrong_options_are_refused(use: str, options: dict[str, Any], word: str) -> None:
    with pytest.raises(ValidationError, match=word):
        optimizer(use, **options)
