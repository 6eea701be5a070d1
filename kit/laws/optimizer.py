"""Laws of optimizers: they learn, go on after a checkpoint as if nothing had happened, and a schedule can steer."""

from __future__ import annotations

import copy
import io

import torch
from torch import Tensor, nn

from kit.contracts.optimizer import Optimizer, parameter_groups
from kit.laws.batches import vectors
from kit.laws.comparing import close, finite, same
from kit.laws.law import broken, law
from kit.laws.subject import Subject


class _Line(nn.Module):
    """A small model that has a matrix, a bias and a gain."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.matrix = nn.Parameter(torch.randn(6, 6, generator=generator) / 3)
        self.bias = nn.Parameter(torch.zeros(6))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.matrix + self.bias


class _Halves(nn.Module):
    """The same, with each half of the matrix and of the bias for itself."""

    def __init__(self) -> None:
        super().__init__()
        whole = _Line()
        self.matrices = nn.ParameterList(half.contiguous() for half in whole.matrix.detach().chunk(2, 1))
        self.biases = nn.ParameterList(half.clone() for half in whole.bias.detach().chunk(2))

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


@law("optimizer", "Every parameter that is trained is in one group, and every group has a rate for a schedule.")
def groups(subject: Subject) -> None:
    """`lr` is what a schedule multiplies."""
    model = _Line()
    optimizer = _optimizer(subject, model)
    held = [id(parameter) for group in optimizer.param_groups for parameter in group["params"]]
    missing = [name for name, parameter in model.named_parameters() if held.count(id(parameter)) != 1]
    if missing:
        broken(f"{', '.join(missing)}: in {held.count(id(getattr(model, missing[0])))} groups, wanted 1")
    for number, group in enumerate(optimizer.param_groups):
        if not float(group.get("lr", 0)) > 0:
            broken(f"group {number} has lr {group.get('lr')}; wanted the rate of the options")


@law("optimizer", "Some hundred steps on a straight line lower the loss, with finite numbers.")
def learns(subject: Subject) -> None:
    """At its own rate."""
    model = _Line()
    before = float(_loss(model).detach())
    after = _train(model, _optimizer(subject, model), 200)
    for name, parameter in model.named_parameters():
        finite(parameter.detach(), name)
    if not after < before:
        broken(f"the loss was {before:.4g} and is {after:.4g} after 200 steps")


@law("optimizer", "Saved and loaded, it goes on bit for bit as if it had not been stopped.")
def resumes(subject: Subject) -> None:
    """Through a file that executes nothing."""
    model = _Line()
    optimizer = _optimizer(subject, model)
    _train(model, optimizer, 5)
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    other = copy.deepcopy(model)
    again = _optimizer(subject, other)
    again.load_state_dict(torch.load(file, weights_only=True))
    for run, its in ((model, optimizer), (other, again)):
        _train(run, its, 5)
    for (name, one), two in zip(model.named_parameters(), other.parameters(), strict=True):
        same(two.detach(), one.detach(), f"{name}, five steps after it was loaded")


def _looks_at_matrices(subject: Subject) -> str | None:
    assert issubclass(subject.component, Optimizer)
    return None if subject.component.elementwise else "it is not declared to update number by number"


@law("optimizer", "Declared to update number by number, it does the same to a matrix that is cut in two.",
     _looks_at_matrices)  # fmt: skip
def elementwise(subject: Subject) -> None:
    """As processes that share each layer have them."""
    whole, halves = _Line(), _Halves()
    for model in (whole, halves):
        _train(model, _optimizer(subject, model), 5)
    close(torch.cat(list(halves.matrices), 1), whole.matrix, "the matrix, cut in two", 1e-5)
    close(torch.cat(list(halves.biases)), whole.bias, "the bias, cut in two", 1e-5)
