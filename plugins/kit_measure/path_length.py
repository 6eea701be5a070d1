"""Path length: the number of layer applications between two positions, by layer type (Vaswani et al. 2017, table 1).

The positions that one layer connects are found in its modules: by attention weights; by the recurrence of torch's
recurrent modules; else by the gradient. The measure is the shortest path over these connections with unlimited depth,
since it is a property of the layer type and not of the depth of one model.
Shapes: H heads, Q queries, K keys, L tokens, D width.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from kit import AttentionRecorder, Measure, Measured, Options, Series, Subject
from kit_measure.random_tokens import checked_length, parts_of, random_tokens


class PathLengthOptions(Options):
    """Options of `path_length`."""

    use: Literal["path_length"] = "path_length"
    length: PositiveInt | None = None
    """The sequence length; left out, the model's maximum."""


class PathLengthMeasure(Measure):
    """Path lengths from the last token to all others, and the number of sequential operations."""

    options_type = PathLengthOptions
    options: PathLengthOptions

    def measure(self, subject: Subject) -> Measured:
        """Breadth-first search from the last token."""
        length = checked_length(subject, self.options.length)
        _, stack = parts_of(subject)
        cells = [module for module in stack.modules() if isinstance(module, nn.RNNBase)]
        recorder = AttentionRecorder()
        with torch.no_grad():
            subject.model(random_tokens(subject, 1, length), observer=recorder)
        if cells:
            connected_QK = recurrent_connections(length, any(module.bidirectional for module in cells))
            # Layers run in parallel on different tokens, but each sequential for the token before.
            sequential = length + sum(module.num_layers for module in cells) - 1
        elif recorder.by_site:
            connected_QK = torch.stack([each[0].amax(0) > 0 for each in recorder.by_site.values()]).any(0)
            sequential = len(recorder.by_site)
        else:
            connected_QK, sequential = gradient_connections(subject, stack, length), len(recorder.unseen) or 1
        lengths = shortest_paths(connected_QK)
        reached = [steps for steps in lengths if steps >= 0]
        figures = {
            "farthest": float(lengths[-1]),
            "longest": float(max(reached)),
            "unreached": float(len(lengths) - len(reached)),
            "sequential": float(sequential),
        }
        known = [(float(distance), float(steps)) for distance, steps in enumerate(lengths) if steps >= 0]
        x, y = zip(*known, strict=True)
        return Measured(figures, [Series("path", x, y, "distance in tokens", "path length")])


def recurrent_connections(length: int, bidirectional: bool) -> Tensor:
    """[Q, K]: a recurrence connects each token with the one before, and with the one after if bidirectional."""
    connected_QK = torch.eye(length, dtype=torch.bool) | torch.eye(length, dtype=torch.bool).roll(1, 0)
    connected_QK[0, -1] = False
    return connected_QK | connected_QK.T if bidirectional else connected_QK


def gradient_connections(subject: Subject, stack: nn.Module, length: int) -> Tensor:
    """[Q, K]: the tokens that the stack connects with the last one, by the gradient."""
    inside: list[Any] = []
    hook = stack.register_forward_hook(lambda module, given, made: inside.extend((given[0], made)))
    try:
        with torch.enable_grad():
            subject.model(random_tokens(subject, 1, length))
            (gradient_LD,) = torch.autograd.grad(inside[1][0, -1].sum(), inside[0])
    finally:
        hook.remove()
    connected_QK = torch.eye(length, dtype=torch.bool)
    connected_QK[-1] |= gradient_LD[0].abs().sum(-1) > 0
    return connected_QK


def shortest_paths(connected_QK: Tensor) -> list[int]:
    """The shortest path from the last token to each distance; -1 where there is none."""
    length = len(connected_QK)
    lengths = torch.full((length,), -1)
    reached = torch.zeros(length, dtype=torch.bool)
    reached[-1] = True
    lengths[-1] = 0
    for count in range(1, length + 1):
        wider = reached | connected_QK[reached].any(0)
        if bool((wider == reached).all()):
            break
        lengths[wider & ~reached] = count
        reached = wider
    return [int(value) for value in lengths.flip(0)]
