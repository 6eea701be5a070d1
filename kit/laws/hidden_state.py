"""Laws of hidden state: tensors and attributes that device moves, checkpoints and other processes would miss."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from kit.laws.forward_pass import RUNS, forward_passes
from kit.laws.law import EVERY_KIND, broken, law
from kit.laws.subject import Subject

_TORCH_ATTRIBUTES = frozenset({"_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "_flat_weights"})
_KIT_ATTRIBUTES = frozenset({"losses", "training"})
"""Attributes that the kit sets and clears."""


def _is_no_module(subject: Subject) -> str | None:
    return None if subject.component.kind in RUNS else "it is no module"


@law(EVERY_KIND, "Every tensor of a part is a parameter or a registered buffer, so that it moves with the part.",
     _is_no_module)  # fmt: skip
def registered_tensors(subject: Subject) -> None:
    """Checks the built part, then runs it, and runs it again on another device."""
    for case in forward_passes(subject):
        part = case.build()
        _require_registered(part, case.name)
        with torch.no_grad():
            case.run(part)
            moved = part.to("meta")
            try:
                case.call(moved, *(each.to("meta") for each in case.inputs))
            except (RuntimeError, NotImplementedError) as error:
                reason = str(error).splitlines()[0]
                broken(f"{case.name}: after a pass on one device it cannot run on another: {reason}")


@law(EVERY_KIND, "A pass changes no attribute: what a part remembers is in its cache, where a search can reorder rows.",
     _is_no_module)  # fmt: skip
def no_hidden_state(subject: Subject) -> None:
    """Compares all attributes before and after a second pass, in evaluation and in training."""
    for case in forward_passes(subject):
        part = case.build()
        with torch.no_grad():
            case.run(part)  # constants may be computed in the first pass
        for training in (False, True):
            part.train(training)
            before = _snapshot(part)
            with torch.no_grad():
                case.run(part)
            after = _snapshot(part)
            changed = sorted(name for name in before | after if before.get(name) != after.get(name))
            if changed:
                where = "in training" if training else "out of training"
                broken(f"{case.name}: a pass {where} changes {', '.join(changed)}; keep it in a Cache, or in a buffer")


def _require_registered(part: nn.Module, what: str) -> None:
    known = {id(tensor) for tensor in (*part.parameters(), *part.buffers())}
    for path, name, value in _attributes(part):
        for tensor in _tensors(value):
            if id(tensor) not in known:
                broken(
                    f"{what}: {path}{name} holds a tensor of {list(tensor.shape)} that is no parameter and no buffer: "
                    f"it stays behind when the part moves to a GPU\n"
                    f'write: self.register_buffer("{name}", ..., persistent=False)'
                )


def _attributes(part: nn.Module) -> Iterator[tuple[str, str, Any]]:
    """Yields the attributes of a part and its modules besides parameters, buffers and modules."""
    for path, module in part.named_modules():
        for name, value in vars(module).items():
            if name not in _TORCH_ATTRIBUTES and name not in _KIT_ATTRIBUTES:
                yield f"{path}." if path else "", name, value


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _snapshot(part: nn.Module) -> dict[str, object]:
    """Returns the attributes: plain values as they are, other objects by their identity."""
    return {f"{path}{name}": _value(value) for path, name, value in _attributes(part)}


def _value(value: Any) -> object:
    if isinstance(value, (int, float, str, bool, type(None))):
        return value
    if isinstance(value, Mapping):
        return {str(key): _value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_value(item) for item in value]
    return id(value)
