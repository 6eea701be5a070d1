"""Several steps of one kind in a row: which numbers they are given is worked out ahead, and C++ takes them.

Shapes: S steps at most, N numbers that a step is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from kit.decoding.loose import Loose
from kit.decoding.program import Program
from kit.model.stretched import Stretched
from kit.native.stretch import LIBRARY, Wiring, stretch

MADE = 2
"""Before what has changed in the state, a program gives vectors and scores."""


class Stretch:
    """One kind of step, which goes on as long as its program fits."""

    def __init__(self, program: Program, changed: Sequence[int], wiring: Wiring) -> None:
        self.program = program
        self.changed = changed
        """For everything that the program gives after vectors and scores, its place in the state."""
        self.wiring = wiring
        numbers = set(program.places)
        self.tensors = [place for place in range(MADE, MADE + len(changed)) if place not in numbers]
        """Which of what the program gives are tensors, after vectors and scores."""

    @classmethod
    def of(cls, program: Program, changed: Sequence[int], leaves: Sequence[Any], beside: int) -> Stretch | None:
        """The stretch of a program that is given these leaves; None where its steps cannot follow each other blindly.

        They can where tensors of the state that a step replaces have the type and sizes that they had.
        changed: places in the state; beside: how many leaves stand before those of the state.
        """
        if program.entry is None or not LIBRARY.load():
            return None
        ids = 0  # the first leaf of tokens
        inputs = {leaf: place for place, leaf in enumerate(program.used)}
        if ids not in inputs or tuple(leaves[ids].shape) != (1, 1):
            return None
        forms, numbers = iter(program.forms_out), set(program.places)
        vectors, scores = (() if place in numbers else next(forms) for place in range(MADE))
        if not vectors or scores[0] != torch.float32:
            return None
        back = [-1] * MADE
        for place, leaf in enumerate(changed, MADE):
            if place in numbers:
                continue
            form = next(forms)
            if form != program.forms_in.get(beside + leaf):
                return None
            back.append(inputs.get(beside + leaf, -1))
        given = [place for place, leaf in enumerate(program.used) if not isinstance(leaves[leaf], Tensor)]
        return cls(program, changed, Wiring(program.entry, inputs[ids], given, back, scores=1))

    def run(self, state: Loose, reads: Iterable[list[Any] | None], never_N: Tensor, end: int) -> Stretched | None:
        """Take steps, at most one for each of `reads`, which are leaves of tokens and their layout."""
        program = self.program
        first: list[Any] = []
        now, after, numbers = list(state.leaves), [], []
        for given in reads:
            if given is None:
                break
            leaves = [*given, *state.beside_leaves, *now]
            first = first or leaves
            # Only numbers can be told ahead.
            told = all(one is other for one, other in zip(given, first, strict=False) if isinstance(one, Tensor))
            if not told or not program.fits(leaves):
                break
            numbers.append([leaves[program.used[place]] for place in self.wiring.numbers])
            now = list(now)
            for place, number in zip(program.places, program.numbers(leaves), strict=True):
                now[self.changed[place - MADE]] = number
            after.append(now)
        if not after:
            return None
        tensors = [first[place] for place in program.used]
        for place in self.wiring.numbers:
            tensors[place] = never_N  # any tensor: each step is given numbers of its own
        numbers_SN = torch.tensor(numbers, dtype=torch.long).view(len(numbers), -1)
        given_tensors = [*tensors, *program.weights]
        log_T, token_T, made = stretch(self.wiring, given_tensors, int(first[0]), numbers_SN, never_N, end)
        state.leaves = after[len(token_T) - 1]
        for place, tensor in zip(self.tensors, made[MADE:], strict=True):
            state.leaves[self.changed[place - MADE]] = tensor
        return Stretched(log_T, token_T, made[0])
