"""Laws of what a part keeps: what many devices, checkpoints and a second process cannot see is not there for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from kit.laws.law import EVERY_KIND, broken, law
from kit.laws.runs import RUNS
from kit.laws.subject import Subject
from kit.laws.trial import trials

_OF_TORCH = frozenset({"_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "_flat_weights"})
_OF_THE_KIT = frozenset({"losses", "training"})
"""What the kit itself keeps beside a part, and empties."""


def _no_module(subject: Subject) -> str | None:
    return None if subject.component.kind in RUNS else "it has no parameters and gives no numbers"


@law(EVERY_KIND, "Every tensor that it keeps is a parameter or a registered buffer, so that it moves with the part.",
     _no_module)  # fmt: skip
def registered(subject: Subject) -> None:
    """As it is built; and after a pass on one device it runs on another, so that nothing was kept on the first."""
    for trial in trials(subject):
        part = trial.build()
        _look_for_tensors(part, trial.name)
        with torch.no_grad():
            trial.run(part)
            moved = part.to("meta")
            try:
                trial.call(moved, *(each.to("meta") for each in trial.inputs))
            except (RuntimeError, NotImplementedError) as error:
                reason = str(error).splitlines()[0]
                broken(f"{trial.name}: after a pass on one device it cannot run on another: {reason}")


@law(EVERY_KIND, "A pass leaves nothing behind: what it remembers is in its state, where a search can choose rows.",
     _no_module)  # fmt: skip
def leaves_nothing(subject: Subject) -> None:
    """In use and in training; a second pass over the same finds everything as the first one did."""
    for trial in trials(subject):
        part = trial.build()
        with torch.no_grad():
            trial.run(part)  # what is worked out once, for good, may be worked out now
        for training in (False, True):
            part.train(training)
            before = _picture(part)
            with torch.no_grad():
                trial.run(part)
            after = _picture(part)
            changed = sorted(name for name in before | after if before.get(name) != after.get(name))
            if changed:
                where = "in training" if training else "out of training"
                broken(f"{trial.name}: a pass {where} changes {', '.join(changed)}; keep it in a State, or in a buffer")


def _look_for_tensors(part: nn.Module, what: str) -> None:
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
    """Everything that a part and the modules inside it hold besides parameters, buffers and modules."""
    for path, module in part.named_modules():
        for name, value in vars(module).items():
            if name not in _OF_TORCH and name not in _OF_THE_KIT:
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


def _picture(part: nn.Module) -> dict[str, object]:
    """What every attribute is: plain values by what they say, everything else by which object it is."""
    return {f"{path}{name}": _image(value) for path, name, value in _attributes(part)}


def _image(value: Any) -> object:
    if isinstance(value, (int, float, str, bool, type(None))):
        return value
    if isinstance(value, Mapping):
        return {str(key): _image(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_image(item) for item in value]
    return id(value)
