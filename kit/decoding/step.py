"""One kind of decoding step as a compiled program, and what it does to the state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from kit.decoding.leaves import Shape, put_together, reader, take_apart
from kit.decoding.loose import Loose
from kit.decoding.program import Program
from kit.decoding.stretching import Stretch
from kit.model.side import Side


class Step:
    """A program for leaves of tokens, their layout, a memory and a state, in this order."""

    def __init__(
        self, plain: Any, decoder: Side, shapes: tuple[Shape, Shape, Shape], leaves: Sequence[Any], cpu: bool
    ) -> None:
        outer, _, inner = shapes
        self.after: Shape = ()
        self.changed: list[int] = []
        self.size = 0
        self.alike = True
        """Whether tensors that took the place of others are of their types."""

        def step(*given: Any) -> list[Any]:
            left = iter(given)
            (tokens, layout), memory, state = (put_together(shape, left) for shape in shapes)
            before = take_apart(state)[1]
            found = plain(decoder, tokens, layout, memory, state, None)
            self.after, after = take_apart(state)
            # Where a state has come to hold more or less than before, all of it is new.
            kept = before if len(before) == len(after) else [None] * len(after)
            self.changed = [n for n, leaf in enumerate(after) if leaf is not kept[n]]
            self.size = len(after)
            self.alike = all(_type(after[n]) == _type(kept[n]) for n in self.changed)
            return [*found, *(after[n] for n in self.changed)]

        self.program = Program(step, leaves, same_numbers(leaves), cpu)
        self.same = self.after == inner and self.alike
        # Where a tensor is changed in place, those that take the place of others may come to lie over it.
        self._apart = not self.program.changed or len(self.changed) == len(self.program.places)
        """Whether what it makes is known not to."""
        blind = self.same and self._apart
        self.stretch = Stretch.of(self.program, self.changed, leaves, len(leaves) - self.size) if blind else None
        self.read = reader(outer, leaves)
        """Leaves of tokens and their layout, where they are of this kind."""

    def holds(self, leaves: Sequence[Any]) -> bool:
        """Whether it may be taken: a trace knows nothing of tensors that lie over each other."""
        if not self.program.fits(leaves):
            return False
        lie = Counter(leaf.untyped_storage().data_ptr() for leaf in leaves if isinstance(leaf, Tensor))
        return all(lie[leaves[place].untyped_storage().data_ptr()] == 1 for place in self.program.changed)

    def fits(self, leaves: Sequence[Any]) -> bool:
        """Whether it may be taken once more, right after it was taken; how what it makes lies is looked at once."""
        if self._apart:
            return self.program.fits(leaves)
        self._apart = self.holds(leaves)
        return self._apart

    def __call__(self, leaves: Sequence[Any], state: Loose) -> tuple[Tensor, Tensor]:
        """Vectors of the last layer and scores; the state is what it is after the step."""
        x, scores, *changed = self.program(leaves)
        if not self.same:
            state.become(self.after, self.size)
        for place, leaf in zip(self.changed, changed, strict=True):
            state.leaves[place] = leaf
        return x, scores


def same_numbers(leaves: Sequence[Any]) -> list[int]:
    """Of each leaf the place of the first with the same number: how many tokens were read is told by every layer."""
    first: dict[int, int] = {}
    return [place if isinstance(leaf, Tensor) else first.setdefault(leaf, place) for place, leaf in enumerate(leaves)]


def _type(leaf: Any) -> Any:
    return (leaf.dtype, leaf.ndim) if isinstance(leaf, Tensor) else None
