"""How many moves a signal takes from one token to another, found in the modules (Vaswani et al. 2017, table 1).

A move is one application of a layer that carries a signal between tokens. Which tokens one application joins is read
off the modules: attention shows its weights; torch's recurrent modules hand their state on to the next token; of a
stack that has neither, the gradient says which tokens it joins. The shortest path over these moves is then searched
for, as if there were layers enough, since it is the kind of layer that is asked about and not the depth of one model.
Shapes: H heads, Q queries, K keys, L tokens, D width.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from kit import Measure, Measured, Options, Recorder, Series, Subject
from kit_measure.texts import longest, parts_of, random_tokens


class PathLengthOptions(Options):
    """Options of `path_length`."""

    use: Literal["path_length"] = "path_length"
    length: PositiveInt | None = None
    """How long the text is; left out, as long as the model is made for."""


class PathLengthMeasure(Measure):
    """Moves between the last token and each other; and how many applications have to wait for each other."""

    options_type = PathLengthOptions
    options: PathLengthOptions

    def measure(self, subject: Subject) -> Measured:
        """From the last token back to each."""
        length = longest(subject, self.options.length)
        _, stack = parts_of(subject)
        cells = [module for module in stack.modules() if isinstance(module, nn.RNNBase)]
        recorder = Recorder()
        with torch.no_grad():
            subject.model(random_tokens(subject, 1, length), watcher=recorder)
        if cells:
            joins_QK = handed_on(length, any(module.bidirectional for module in cells))
            # Layers can work at the same time on different tokens, but each waits for the token before.
            waits = length + sum(module.num_layers for module in cells) - 1
        elif recorder.by_site:
            joins_QK = torch.stack([each[0].amax(0) > 0 for each in recorder.by_site.values()]).any(0)
            waits = len(recorder.by_site)
        else:
            joins_QK, waits = by_gradient(subject, stack, length), len(recorder.unseen) or 1
        moves = shortest(joins_QK)
        reached = [steps for steps in moves if steps >= 0]
        figures = {
            "farthest": float(moves[-1]),
            "longest": float(max(reached)),
            "unreached": float(len(moves) - len(reached)),
            "sequential": float(waits),
        }
        known = [(float(distance), float(steps)) for distance, steps in enumerate(moves) if steps >= 0]
        x, y = zip(*known, strict=True)
        return Measured(figures, [Series("path", x, y, "distance in tokens", "moves between tokens")])


def handed_on(length: int, both_ways: bool) -> Tensor:
    """[Q, K]: a recurrence joins a token with the one before it, and the one after where it runs both ways."""
    joins_QK = torch.eye(length, dtype=torch.bool) | torch.eye(length, dtype=torch.bool).roll(1, 0)
    joins_QK[0, -1] = False
    return joins_QK | joins_QK.T if both_ways else joins_QK


def by_gradient(subject: Subject, stack: nn.Module, length: int) -> Tensor:
    """[Q, K]: which tokens the stack joins at all; only the last row is asked for."""
    inside: list[Any] = []
    hook = stack.register_forward_hook(lambda module, given, made: inside.extend((given[0], made)))
    try:
        with torch.enable_grad():
            subject.model(random_tokens(subject, 1, length))
            (slope_LD,) = torch.autograd.grad(inside[1][0, -1].sum(), inside[0])
    finally:
        hook.remove()
    joins_QK = torch.eye(length, dtype=torch.bool)
    joins_QK[-1] |= slope_LD[0].abs().sum(-1) > 0
    return joins_QK


def shortest(joins_QK: Tensor) -> list[int]:
    """The fewest moves from the last token to the one at each distance; -1 where no number is enough."""
    length = len(joins_QK)
    moves = torch.full((length,), -1)
    reached = torch.zeros(length, dtype=torch.bool)
    reached[-1] = True
    moves[-1] = 0
    for count in range(1, length + 1):
        wider = reached | joins_QK[reached].any(0)
        if bool((wider == reached).all()):
            break
        moves[wider & ~reached] = count
        reached = wider
    return [int(value) for value in moves.flip(0)]
