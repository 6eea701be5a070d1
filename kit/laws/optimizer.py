"""Laws of optimizers: parameter groups, decreasing loss, exact resume and elementwise updates."""

from __future__ import annotations

import copy
import io

import torch
from torch import Tensor, nn

from kit.contracts.optimizer import Optimizer, parameter_groups
from kit.laws.assertions import close, finite, same
from kit.laws.batches import vectors
from kit.laws.law import broken, law
from kit.laws.subject import Subject


class _LinearRegression(nn.Module):
    """A linear regression."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.matrix = nn.Parameter(torch.randn(6, 6, generator=generator) / 3)
        self.bias = nn.Parameter(torch.zeros(6))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.matrix + self.bias


class _ShardedLinearRegression(nn.Module):
    """A linear regression with the halves of matrix and bias as separate parameters."""

    def __init__(self) -> None:
        super().__init__()
        full = _LinearRegression()
        self.matrices = nn.ParameterList(half.contiguous() for half in full.matrix.detach().chunk(2, 1))
        self.biases = nn.ParameterList(half.clone() for half in full.bias.detach().chunk(2))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x @ matrix + bias for matrix, bias in zip(self.matrices, self.biases, strict=True)], -1)


def _loss(model: nn.Module) -> Tensor:
    x, y = vectors(20, 6).float(), vectors(20, 6, seed=1).float()
    out: Tensor = model(x)
    return (out - y).square().mean()


def _optimizer(subject: Subject, model: nn.Module) -> torch.optim.Optimizer:
    assert issubclass(subject.component, Optimizer)
    return subject.component(subject.options).build(parameter_groups(model))


def _train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> float:
    for _ in range(steps):
        optimizer.zero_grad()
        loss = _loss(model)
        loss.backward()
        optimizer.step()
    return float(_loss(model).detach())


@law("optimizer", "Every trained parameter is in exactly one group, and every group has a learning rate.")
def param_groups(subject: Subject) -> None:
    """Checks the groups of parameters, whose `lr` a schedule multiplies."""
    model = _LinearRegression()
    optimizer = _optimizer(subject, model)
    grouped = [id(parameter) for group in optimizer.param_groups for parameter in group["params"]]
    missing = [name for name, parameter in model.named_parameters() if grouped.count(id(parameter)) != 1]
    if missing:
        broken(f"{', '.join(missing)}: in {grouped.count(id(getattr(model, missing[0])))} groups, wanted 1")
    for number, group in enumerate(optimizer.param_groups):
        if not float(group.get("lr", 0)) > 0:
            broken(f"group {number} has lr {group.get('lr')}; wanted the rate of the options")


@law("optimizer", "The loss of a linear regression decreases in 200 steps, and parameters stay finite.")
def loss_decreases(subject: Subject) -> None:
    """Trains with the learning rate of the options."""
    model = _LinearRegression()
    before = float(_loss(model).detach())
    after = _train(model, _optimizer(subject, model), 200)
    for name, parameter in model.named_parameters():
        finite(parameter.detach(), name)
    if not after < before:
        broken(f"the loss was {before:.4g} and is {after:.4g} after 200 steps")


@law("optimizer", "Saved and loaded, it continues bit for bit as without an interruption.")
def state_dict(subject: Subject) -> None:
    """Loads the state dict with weights_only, and compares five further steps."""
    model = _LinearRegression()
    optimizer = _optimizer(subject, model)
    _train(model, optimizer, 5)
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    other = copy.deepcopy(model)
    again = _optimizer(subject, other)
    again.load_state_dict(torch.load(file, weights_only=True))
    for run, its_optimizer in ((model, optimizer), (other, again)):
        _train(run, its_optimizer, 5)
    for (name, one), two in zip(model.named_parameters(), other.parameters(), strict=True):
        same(two.detach(), one.detach(), f"{name}, five steps after it was loaded")


def _not_elementwise(subject: Subject) -> str | None:
    assert issubclass(subject.component, Optimizer)
    return None if subject.component.elementwise else "it does not declare to be elementwise"


@law("optimizer", "An elementwise optimizer updates the halves of a matrix as it updates the whole.",
     _not_elementwise)  # fmt: skip
def elementwise(subject: Subject) -> None:
    """Trains a matrix and its_optimizer halves, as tensor-parallel ranks hold them."""
    full, halves = _LinearRegression(), _ShardedLinearRegression()
    for model in (full, halves):
        _train(model, _optimizer(subject, model), 5)
    close(torch.cat(list(halves.matrices), 1), full.matrix, "the matrix, cut in two", 1e-5)
    close(torch.cat(list(halves.biases)), full.bias, "the bias, cut in two", 1e-5)
