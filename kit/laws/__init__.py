"""The laws that every part must keep, to be asked of any part: `kit.laws.check(MyAttention)` says which it breaks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from kit.component import Component
from kit.errors import KitError
from kit.laws.law import EVERY_KIND, LAWS, Law, LawBroken, laws_of
from kit.laws.report import Report, Verdict

if TYPE_CHECKING:
    from kit.kit import Kit
    from kit.registry import Registered

_FILES = (
    "attention_seeing",
    "attention_rows",
    "attention_steps",
    "attention_watching",
    "attention_cost",
    "position",
    "norm",
    "residual",
    "mask",
    "feedforward",
    "embedding",
    "stack",
    "head",
    "every_part",
    "keeping",
    "dividing",
    "schedule",
    "optimizer",
    "metric",
    "constraint",
    "search",
    "objective",
    "tokenizer",
    "data",
    "regularizer",
)
# Reading a law enters it in the list.
for _name in _FILES:
    import_module(f"kit.laws.{_name}")

pytest_plugins = ("kit.laws.collecting",)
"""Lets `pytest -p kit.laws --kit-plugin PACKAGE` collect the laws of a package."""

__all__ = ["LAWS", "Law", "LawBroken", "Report", "Verdict", "check", "laws_of", "try_law"]


def check(
    part: type[Component] | Registered,
    kit: Kit | None = None,
    laws: Sequence[Law] | None = None,
    slow: bool = False,
    quick: bool = False,
    progress: Callable[[Law], None] | None = None,
) -> Report:
    """Hold a part to every law of its kind, with several sets of its options.

    part: its class, which no plugin needs to have brought yet, or what a registry gives; kit: whose parts may
    stand around it; laws: only these; slow: also those that take long; quick: with one set of options only;
    progress: is told each law before it is tried.
    """
    from kit.kit import Kit

    component = part if isinstance(part, type) else part.component
    kit = kit or Kit()
    chosen = [each for each in laws_of(component.kind) if slow or not each.slow] if laws is None else laws
    if not chosen and laws is None:
        kinds = ", ".join(dict.fromkeys(each.kind for each in LAWS.values() if each.kind != EVERY_KIND))
        raise KitError(f"there are no laws for the kind {component.kind}\n    there are laws for {kinds}")
    verdicts = []
    for each in chosen:
        if progress is not None:
            progress(each)
        verdicts.append(try_law(each, component, kit, quick))
    return Report(f"{component.kind} {component.part_name()}", tuple(verdicts))


def try_law(law: Law, component: type[Component], kit: Kit | None = None, quick: bool = False) -> Verdict:
    """Hold a part to one law; the first set of options that breaks it decides. quick: only the first that it takes."""
    from kit.kit import Kit
    from kit.laws.subject import subjects_of

    reasons = []
    kept = False
    for subject in subjects_of(component, (kit or Kit()).registry):
        try:
            reason = law.claim(subject)
            if reason is None:
                law.check(subject)
                kept = True
                if law.once or quick:
                    break
            else:
                reasons.append(reason)
        except LawBroken as error:
            return Verdict(law, "failed", f"{subject.title}: {error}", error)
        except Exception as error:
            return Verdict(law, "failed", f"{subject.title}: {type(error).__name__}: {error}", error)
    if kept:
        return Verdict(law, "passed")
    return Verdict(law, "not claimed", reasons[0] if reasons else "nothing to try")
