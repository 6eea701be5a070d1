"""What a law is: one sentence that every part of a kind must live up to, and a check that raises where it does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from kit.errors import KitError

if TYPE_CHECKING:
    from kit.laws.subject import Subject

Check = Callable[["Subject"], None]
Claim = Callable[["Subject"], str | None]
"""Why the law does not concern a subject, because its part claims no such thing; None where it does."""

EVERY_KIND = "part"
"""The kind of laws that hold for every part that is built for a place in a model, whatever its own kind."""
BUILT = frozenset({"attention", "position", "norm", "residual", "mask", "feedforward", "embedding", "stack", "head"})
"""The kinds that are built for a place in a model; others are built with their options alone."""


class LawBroken(KitError):
    """A part does not live up to a law; says what was tried, what came out and what was wanted."""


@dataclass(frozen=True)
class Law:
    """One law of one kind of part."""

    name: str
    kind: str
    sentence: str
    check: Check
    """Raises LawBroken, or anything that the part itself raises."""
    claim: Claim
    slow: bool = False
    """Whether it takes many seconds for a part, so that it is left out unless asked for."""
    once: bool = False
    """Whether the first set of options that it concerns is enough."""

    @property
    def title(self) -> str:
        """Kind and name, for lists."""
        return f"{self.kind}.{self.name}"


LAWS: dict[str, Law] = {}
"""Every law by its title, in the order in which they were written."""


def law(
    kind: str, sentence: str, claim: Claim | None = None, slow: bool = False, once: bool = False
) -> Callable[[Check], Check]:
    """Makes a law of a function, under the function's name."""

    def enter(check: Check) -> Check:
        made = Law(check.__name__, kind, sentence, check, claim or _always, slow, once)
        LAWS[made.title] = made
        return check

    return enter


def laws_of(kind: str) -> list[Law]:
    """The laws that a part of this kind is held to; none where the kit has no laws for the kind."""
    own = [each for each in LAWS.values() if each.kind == kind]
    every = [each for each in LAWS.values() if each.kind == EVERY_KIND]
    return own + every if kind in BUILT else own


def broken(message: str) -> NoReturn:
    """Say that the law is broken."""
    raise LawBroken(message)


def _always(subject: Subject) -> str | None:
    return None
