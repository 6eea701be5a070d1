"""A loss or a gradient that is not finite: which step, which examples, and the first layer that went wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from kit.contracts.objective import Objective
from kit.data.batch import Batch
from kit.errors import KitError
from kit.model.families import Model
from kit.training import randomness
from kit.training.agreement import told
from kit.training.sharding import usable

SHOWN = 12
"""How many examples of a batch are named."""


class NotFinite(KitError):
    """Training stopped before a broken update; the parameters are as they were."""

    exit_code = 5


def diagnosis(
    model: Model,
    objective: Objective,
    batches: Sequence[Batch],
    random_state: Tensor,
    precision: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> NotFinite:
    """Run the step again, in the precision that it was made in, to find where it goes wrong, and say it."""
    step = batches[0].step if batches else 0
    found, culprit = "the loss or a gradient is not finite", batches[:1]
    with randomness.untouched(), usable(model), precision():
        torch.set_rng_state(random_state)
        # All of them, even after the first is found: where layers are spread, processes compute together or not at all.
        layers = [_first_bad_output(model, objective, batch) for batch in batches]
    seen = [number for number, layer in enumerate(layers) if layer is not None]
    if seen:
        found, culprit = str(layers[seen[0]]), [batches[seen[0]]]
    elif (parameter := _bad_gradient(model)) is not None:
        found, culprit = f"the loss is finite, but the gradient of {parameter} is not", batches
    rows = [index for batch in culprit for index in batch.indices]
    named = ", ".join(map(str, rows[:SHOWN])) + (f" and {len(rows) - SHOWN} more" if len(rows) > SHOWN else "")
    text = (
        f"step {step + 1} is not finite: {found}\n"
        f"    the batch holds the training examples (or offsets) {named}\n"
        "    no parameter was changed by it; try a smaller rate, a longer warm-up or clip: 1.0"
    )
    return NotFinite(_of_the_culprit(text, bool(seen)))


def _of_the_culprit(text: str, seen: bool) -> str:
    """What the process says that saw it, the same on all; what the first says where none saw more than the others."""
    texts = told(("seen " if seen else "     ") + text)
    rank = next((rank for rank, other in enumerate(texts) if other.startswith("seen")), 0)
    return texts[rank][5:] if len(texts) == 1 else f"process {rank}: {texts[rank][5:]}"


def _first_bad_output(model: Model, objective: Objective, batch: Batch) -> str | None:
    """The innermost module whose output is the first that is not finite."""
    names = {module: name or "the model" for name, module in model.named_modules()}
    bad: list[str] = []

    def look(module: nn.Module, inputs: Any, output: Any) -> None:
        if not bad and not _finite(output):
            weights = [name for name, value in module.named_parameters() if not _finite(value)]
            because = f" (its weight {weights[0]} is not finite)" if weights else ""
            bad.append(f"the first layer that went wrong is {names[module]}, a {type(module).__name__}{because}")

    handles = [module.register_forward_hook(look) for module in model.modules()]
    try:
        with torch.no_grad():
            loss = objective.loss(model, batch)
    finally:
        for handle in handles:
            handle.remove()
    if bad:
        return bad[0]
    return None if _finite(loss.total) else "every layer is finite, but the loss is not"


def _bad_gradient(model: nn.Module) -> str | None:
    """The parameter nearest to the loss whose gradient is not finite: the last that is used."""
    found = [name for name, it in model.named_parameters() if it.grad is not None and not _finite(it.grad)]
    return found[-1] if found else None


def _finite(value: Any) -> bool:
    if isinstance(value, Tensor):
        # Of a tensor that is spread over processes its piece, because the others may not be asking.
        value = value.to_local() if hasattr(value, "to_local") else value
        return not value.is_floating_point() or bool(torch.isfinite(value).all())
    if isinstance(value, tuple | list):
        return all(_finite(item) for item in value)
    return True
