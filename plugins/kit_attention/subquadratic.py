"""Attentions that never compute the weight matrix: the masks and dropout that they refuse, and their precision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from kit import AttentionContext, BuildContext, KitError, Problem


def is_causal(context: AttentionContext, name: str) -> bool:
    """Whether the mask is causal; raises KitError for any other mask, which could only be ignored."""
    if context.mask is None:
        return False
    if context.mask.shape != "causal":
        raise KitError(
            f"{name} attention honours no mask but causal, and was given {type(context.mask).__name__}; "
            "leave the mask out or choose another attention, such as softmax"
        )
    return True


def refuse_masks(context: AttentionContext, name: str) -> None:
    """Raises KitError for any mask, which could only be ignored."""
    if context.mask is not None:
        raise KitError(
            f"{name} attention mixes the whole sequence and honours no mask, and was given "
            f"{type(context.mask).__name__}; it would show what the mask hides. Leave the mask out or choose another "
            "attention, such as softmax"
        )


def refuse_dropout(options: Any, build_context: BuildContext, name: str) -> Iterator[Problem]:
    """A problem where dropout is given: weights that are never computed cannot be dropped."""
    if options.dropout > 0:
        yield build_context.problem(
            f"{name} attention never makes the weights that dropout {options.dropout} would drop",
            "dropout",
            hint="leave dropout out here; the model's own dropout still works",
        )


def at_least_float32(x: Tensor) -> Tensor:
    """x in float32, or in its own type where that is wider."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
