"""Laws: properties that every part of a kind must have; `kit.laws.check(MyAttention)` tests a part for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from kit.errors import KitError
from kit.laws.law import EVERY_KIND, LAWS, Law, LawBroken, laws_of
from kit.laws.packages import Package, find_package, plugins_named
from kit.laws.report import Report, Verdict
from kit.plugin.component import Component

if TYPE_CHECKING:
    from kit.kit import Kit
    from kit.plugin.registry import Registered

_LAW_MODULES = (
    "attention_visibility",
    "attention_equivalence",
    "attention_observation",
    "attention_decoding",
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
    "hidden_state",
    "tensor_parallel",
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
# Importing a module registers its laws.
for _name in _LAW_MODULES:
    import_module(f"kit.laws.{_name}")

pytest_plugins = ("kit.laws.pytest_plugin",)
"""Lets `pytest -p kit.laws --kit-plugin PACKAGE` collect the laws of a package."""

__all__ = [
    "LAWS",
    "Law",
    "LawBroken",
    "Package",
    "Report",
    "Verdict",
    "check",
    "find_package",
    "laws_of",
    "plugins_named",
    "try_law",
]


def check(
    part: type[Component] | Registered,
    kit: Kit | None = None,
    laws: Sequence[Law] | None = None,
    slow: bool = False,
    quick: bool = False,
    progress: Callable[[Law], None] | None = None,
) -> Report:
    """Tests a part for every law of its kind, with several sets of options.

    part: a class, which need not belong to an installed plugin, or an entry of a registry; kit: its parts may surround
    the part under test; laws: only these; slow: includes slow laws; quick: tests only one set of options;
    progress: called with each law before its test.
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
    return Report(f"{component.kind} {component.name()}", tuple(verdicts))


def try_law(law: Law, component: type[Component], kit: Kit | None = None, quick: bool = False) -> Verdict:
    """Tests a part for one law, with all sets of options until one breaks it; quick: only with the first valid set."""
    from kit.kit import Kit
    from kit.laws.subject import NoOptions, subjects_of

    reasons = []
    passed = False
    try:
        subjects = subjects_of(component, (kit or Kit()).registry)
    except NoOptions as error:
        return Verdict(law, "not claimed", str(error))
    except Exception as error:
        return Verdict(law, "failed", f"{component.__name__} cannot be tried: {type(error).__name__}: {error}", error)
    for subject in subjects:
        if passed and (quick or (law.once and not subject.is_example)):
            continue
        try:
            reason = law.claim(subject)
            if reason is None:
                law.check(subject)
                passed = True
            else:
                reasons.append(reason)
        except LawBroken as error:
            return Verdict(law, "failed", f"{subject.title}: {error}", error)
        except Exception as error:
            return Verdict(law, "failed", f"{subject.title}: {type(error).__name__}: {error}", error)
    if passed:
        return Verdict(law, "passed")
    return Verdict(law, "not claimed", reasons[0] if reasons else "nothing to try")
