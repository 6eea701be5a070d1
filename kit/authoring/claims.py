"""What a part claims that it can do, what it does not, and what it could claim since the laws for it hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from kit.component import Component
from kit.contracts.attention import Attention
from kit.explaining.parts import abilities
from kit.kit import Kit
from kit.laws import LAWS, try_law


@dataclass(frozen=True)
class Claim:
    """One capability."""

    name: str
    state: Literal["claimed", "not claimed", "could claim"]
    text: str
    """Its value, or what to write to claim it."""


@dataclass(frozen=True)
class _Untried:
    """A capability that a class may leave unclaimed, and the laws that decide whether it could claim it."""

    name: str
    value: Any
    laws: tuple[str, ...]


_ATTENTION = (
    _Untried("steps", True, ("attention.steps", "attention.select")),
    _Untried("reads_memory", True, ("attention.shape", "attention.padding")),
    _Untried("masks", frozenset({"causal", "pairs"}), ("attention.masked_pairs", "attention.causality")),
    _Untried("positions", frozenset({"rotate", "bias", "interact"}), ("attention.positions_count",)),
    _Untried("weights", True, ("attention.watched",)),
    _Untried("shares", True, ("attention.shares",)),
    _Untried("compiles", True, ("attention.traced",)),
    _Untried("cost", "linear", ("attention.growth",)),
)
_OTHERS: Mapping[str, tuple[_Untried, ...]] = {
    "position": (_Untried("relative", True, ("position.shift_equivariance",)),),
    "mask": (_Untried("hides_future", True, ("mask.declared_shape",)),),
    "residual": (_Untried("starts_as_identity", True, ("residual.identity_at_start",)),),
    "feedforward": (_Untried("mixes_tokens", False, ("feedforward.token_by_token",)),),
}


def claims_of(component: type[Component], kit: Kit) -> list[Claim]:
    """Every capability that is declared as data, then those that are not claimed, each tried."""
    declared = abilities(component)
    found = [Claim(name, "claimed", _shown(value)) for name, value in declared.items() if _is_claimed(value)]
    untried = _ATTENTION if issubclass(component, Attention) else _OTHERS.get(component.kind, ())
    for each in untried:
        if _lacks(component, each):
            found.append(_tried(component, each, kit))
    known = {claim.name for claim in found}
    found += [Claim(name, "not claimed", _shown(value)) for name, value in declared.items() if name not in known]
    return found


def _lacks(component: type[Component], untried: _Untried) -> bool:
    value = _value(component, untried.name)
    return bool(untried.value - value) if isinstance(untried.value, frozenset) else value != untried.value


def _value(component: Any, name: str) -> Any:
    return getattr(component.abilities, name) if issubclass(component, Attention) else getattr(component, name)


def _tried(component: type[Component], untried: _Untried, kit: Kit) -> Claim:
    """Claim it for a moment, and ask the laws."""
    changed: dict[str, Any] = {untried.name: untried.value}
    if issubclass(component, Attention):
        changed = {"abilities": replace(component.abilities, **{untried.name: untried.value})}
    bolder = type(component.__name__, (component,), changed)
    verdicts = [try_law(LAWS[title], bolder, kit) for title in untried.laws]
    holds = all(verdict.outcome != "failed" for verdict in verdicts)
    if holds and any(verdict.outcome == "passed" for verdict in verdicts):
        value = f"frozenset({sorted(untried.value)})" if isinstance(untried.value, frozenset) else repr(untried.value)
        return Claim(untried.name, "could claim", f"write {untried.name} = {value}; its laws hold")
    reason = next((verdict for verdict in verdicts if verdict.outcome == "failed"), None)
    text = _shown(_value(component, untried.name))
    return Claim(untried.name, "not claimed", text if reason is None else f"{text}; {reason.law.title} would be broken")


def _is_claimed(value: Any) -> bool:
    return value not in (False, None, (), [], {}, "pairs", "quadratic")


def _shown(value: Any) -> str:
    if isinstance(value, (frozenset, set, list, tuple)):
        return ", ".join(sorted(map(str, value))) or "none"
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)
