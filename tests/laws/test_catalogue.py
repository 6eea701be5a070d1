"""Every installed part keeps every law that it claims, with every choice of its options."""

from __future__ import annotations

from typing import Any

import pytest

from kit import Kit
from kit.laws import Law, laws_of, try_law
from kit.laws.subject import subjects_of

KIT = Kit()
CASES = [
    pytest.param(part, law, id=f"{kind}-{part.name}-{law.name}", marks=[pytest.mark.slow] if law.slow else [])
    for kind in KIT.registry.kinds()
    for law in laws_of(kind)
    for part in KIT.registry.components(kind)
]


@pytest.mark.parametrize(("part", "law"), CASES)
def test_a_part_keeps_its_laws(part: Any, law: Law, record_property: Any) -> None:
    verdict = try_law(law, part.component, KIT)
    count = 1 if law.once else len(subjects_of(part.component, KIT.registry))
    if verdict.outcome == "not claimed":
        pytest.skip(f"not claimed: {verdict.message}")
    record_property("checked", (f"{part.kind} {part.name}", law.title, count))
    assert verdict.outcome == "passed", f"{law.title}: {law.sentence}\n{verdict.message}"


def test_every_kind_that_is_part_of_a_model_has_laws() -> None:
    from kit.contracts.mask import Mask
    from kit.contracts.part import Part

    for kind in KIT.registry.kinds():
        components = [part.component for part in KIT.registry.components(kind)]
        if components and all(issubclass(each, Part | Mask) for each in components):
            assert laws_of(kind), f"{kind} has no laws"
