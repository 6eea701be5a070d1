"""Capabilities of a part: claimed, not claimed, or claimable because their laws hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from kit import Attention, Component, Kit, capabilities
from kit.laws import LAWS, try_law


@dataclass(frozen=True)
class Claim:
    """One capability and whether it is claimed."""

    name: str
    state: Literal["claimed", "not claimed", "could claim"]
    text: str
    """The value of the capability, or the source line that claims it."""


@dataclass(frozen=True)
class _Candidate:
    """A capability that a class may leave unclaimed, and the laws that decide whether it could be claimed."""

    name: str
    value: Any
    laws: tuple[str, ...]


_ATTENTION = (
    _Candidate("incremental", True, ("attention.incremental_decoding", "attention.cache_reorder")),
    _Candidate("supports_shared_beams", True, ("attention.shared_beams",)),
    _Candidate("reads_memory", True, ("attention.shape", "attention.padding_invariance")),
    _Candidate("masks", frozenset({"causal", "pairs"}), ("attention.masked_keys", "attention.causality")),
    _Candidate("positions", frozenset({"rotate", "bias", "content_bias"}), ("attention.position_methods",)),
    _Candidate("weights", True, ("attention.observed",)),
    _Candidate("weights_sum_to_one", True, ("attention.weights_sum_to_one",)),
    _Candidate("compiles", True, ("attention.traced",)),
    _Candidate("cost", "linear", ("attention.cost",)),
)
_BY_KIND: Mapping[str, tuple[_Candidate, ...]] = {
    "position": (_Candidate("relative", True, ("position.shift_invariance",)),),
    "mask": (_Candidate("hides_future", True, ("mask.declared_shape",)),),
    "residual": (_Candidate("starts_as_identity", True, ("residual.identity_at_init",)),),
    "feedforward": (_Candidate("mixes_tokens", False, ("feedforward.token_independence",)),),
}


def claims_of(component: type[Component], kit: Kit) -> list[Claim]:
    """Returns the declared capabilities, then the unclaimed ones, each tested for its laws."""
    declared = capabilities(component)
    found = [Claim(name, "claimed", _as_text(value)) for name, value in declared.items() if _is_claimed(value)]
    candidates = _ATTENTION if issubclass(component, Attention) else _BY_KIND.get(component.kind, ())
    for each in candidates:
        if _is_unclaimed(component, each):
            found.append(_try_claim(component, each, kit))
    known = {claim.name for claim in found}
    found += [Claim(name, "not claimed", _as_text(value)) for name, value in declared.items() if name not in known]
    return found


def _is_unclaimed(component: type[Component], candidate: _Candidate) -> bool:
    value = _value(component, candidate.name)
    return bool(candidate.value - value) if isinstance(candidate.value, frozenset) else value != candidate.value


def _value(component: Any, name: str) -> Any:
    return getattr(component.capabilities, name) if issubclass(component, Attention) else getattr(component, name)


def _try_claim(component: type[Component], candidate: _Candidate, kit: Kit) -> Claim:
    """Trys the laws on a subclass that claims the capability."""
    attributes: dict[str, Any] = {candidate.name: candidate.value}
    if issubclass(component, Attention):
        attributes = {"capabilities": replace(component.capabilities, **{candidate.name: candidate.value})}
    claiming_class = type(component.__name__, (component,), attributes)
    verdicts = [try_law(LAWS[title], claiming_class, kit) for title in candidate.laws]
    holds = all(verdict.outcome != "failed" for verdict in verdicts)
    if holds and any(verdict.outcome == "passed" for verdict in verdicts):
        value = (
            f"frozenset({sorted(candidate.value)})" if isinstance(candidate.value, frozenset) else repr(candidate.value)
        )
        return Claim(candidate.name, "could claim", f"write {candidate.name} = {value}; its laws hold")
    reason = next((verdict for verdict in verdicts if verdict.outcome == "failed"), None)
    text = _as_text(_value(component, candidate.name))
    return Claim(
        candidate.name, "not claimed", text if reason is None else f"{text}; {reason.law.title} would be broken"
    )


def _is_claimed(value: Any) -> bool:
    return value not in (False, None, (), [], {}, "pairs", "quadratic")


def _as_text(value: Any) -> str:
    if isinstance(value, (frozenset, set, list, tuple)):
        return ", ".join(sorted(map(str, value))) or "none"
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)
