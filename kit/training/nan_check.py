"""NaN check: of a step whose loss or gradient is not finite, the examples and the first layer that went wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from kit.contracts.objective import Objective
from kit.distributed.collectives import all_gather_text
from kit.distributed.fsdp import unsharded
from kit.errors import KitError
from kit.kernels.rng_state import preserve_rng_state
from kit.model.families import Model
from kit.sequence.batch import Batch

SHOWN = 12
"""How many examples of a batch are named."""


class NonFiniteLoss(KitError):
    """A loss or a gradient is infinite or NaN; training stopped before the update, so the parameters are intact."""

    exit_code = 5


def diagnose_non_finite(
    model: Model,
    objective: Objective,
    batches: Sequence[Batch],
    rng_state: Tensor,
    precision: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> NonFiniteLoss:
    """Repeat the forward passes of a step, in its precision, to find the first output that is infinite or NaN.

    Collective: every rank must call it. rng_state: torch's generator before the step.
    """
    step = batches[0].step if batches else 0
    found, culprit = "the loss or a gradient is not finite", batches[:1]
    with preserve_rng_state(), unsharded(model), precision():
        torch.set_rng_state(rng_state)
        # All of them, even after the first is found: the layers of a sharded model are collectives.
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
        "    no parameter was changed by it; try a smaller learning_rate, a longer warm-up or clip_grad_norm: 1.0"
    )
    return NonFiniteLoss(_text_of_culprit(text, bool(seen)))


def _text_of_culprit(text: str, seen: bool) -> str:
    """The text of the first rank that found a layer, the same on all ranks; that of rank 0 where none did."""
    texts = all_gather_text(("seen " if seen else "     ") + text)
    rank = next((rank for rank, other in enumerate(texts) if other.startswith("seen")), 0)
    return texts[rank][5:] if len(texts) == 1 else f"process {rank}: {texts[rank][5:]}"


def _first_bad_output(model: Model, objective: Objective, batch: Batch) -> str | None:
    """The innermost module with the first output that is not finite, in words."""
    names = {module: name or "the model" for name, module in model.named_modules()}
    bad: list[str] = []

    def check(module: nn.Module, inputs: Any, output: Any) -> None:
        if not bad and not _finite(output):
            weights = [name for name, value in module.named_parameters() if not _finite(value)]
            because = f" (its weight {weights[0]} is not finite)" if weights else ""
            bad.append(f"the first layer that went wrong is {names[module]}, a {type(module).__name__}{because}")

    handles = [module.register_forward_hook(check) for module in model.modules()]
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
    """The last parameter, by the order of use, whose gradient is not finite: the nearest to the loss."""
    found = [name for name, it in model.named_parameters() if it.grad is not None and not _finite(it.grad)]
    return found[-1] if found else None


def _finite(value: Any) -> bool:
    if isinstance(value, Tensor):
        # Of a sharded tensor the local shard: gathering it is a collective that other ranks may not take part in.
        value = value.to_local() if hasattr(value, "to_local") else value
        return not value.is_floating_point() or bool(torch.isfinite(value).all())
    if isinstance(value, tuple | list):
        return all(_finite(item) for item in value)
    return True
