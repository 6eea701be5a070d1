"""A law: one sentence that holds for every part of a kind, and a check that raises if it does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from kit.errors import KitError

if TYPE_CHECKING:
    from kit.laws.subject import Subject

Check = Callable[["Subject"], None]
Claim = Callable[["Subject"], str | None]
"""Returns why the law does not apply to a subject, or None if it does."""

EVERY_KIND = "part"
"""The kind of laws for all parts that are built into a model."""
BUILT = frozenset({"attention", "position", "norm", "residual", "mask", "feedforward", "embedding", "stack", "head"})
"""The kinds of parts that are built into a model; others are built with their options alone."""


class LawBroken(KitError):
    """A part breaks a law; the message names the case, the actual result and the expected one."""


@dataclass(frozen=True)
class Law:
    """A law for one kind of part."""

    name: str
    kind: str
    sentence: str
    check: Check
    """Raises LawBroken, or an exception of the part, if the law is broken."""
    claim: Claim
    slow: bool = False
    """Whether the test takes many seconds, so that it only runs on request."""
    once: bool = False
    """Whether only the first set of options is tested, and the examples of the part."""

    @property
    def title(self) -> str:
        """The kind and the name of the law."""
        return f"{self.kind}.{self.name}"


LAWS: dict[str, Law] = {}
"""All laws by title, in the order of their definition."""


def law(
    kind: str, sentence: str, claim: Claim | None = None, slow: bool = False, once: bool = False
) -> Callable[[Check], Check]:
    """Registers a function as a law under its name."""

    def register(check: Check) -> Check:
        made = Law(check.__name__, kind, sentence, check, claim or _always, slow, once)
        LAWS[made.title] = made
        return check

    return register


def laws_of(kind: str) -> list[Law]:
    """Returns the laws for a kind of part; empty if there are none."""
    own = [each for each in LAWS.values() if each.kind == kind]
    every = [each for each in LAWS.values() if each.kind == EVERY_KIND]
    return own + every if kind in BUILT else own


def broken(message: str) -> NoReturn:
    """Raises LawBroken."""
    raise LawBroken(message)


def _always(subject: Subject) -> str | None:
    return None
