"""Which heads to take out first: by any number that an installed probe says heads can be ordered by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from kit.contracts.probe import HeadProbe, Probe
from kit.errors import KitError
from kit.inspecting.gating import Head
from kit.inspecting.inspector import Inspector
from kit.inspecting.reading import Ids
from kit.registry import Registry


def installed_probes(registry: Registry, costly: bool = False) -> list[Probe]:
    """Every installed probe with its own defaults; costly: those too that run the model many times."""
    found: list[Probe] = []
    for part in registry.components("probe"):
        component = part.component
        assert issubclass(component, Probe)
        if costly or not component.costly:
            found.append(component(component.options_type.model_validate({"use": part.name})))
    return found


@dataclass(frozen=True)
class Ordering:
    """A number of a probe; the smaller it is for a head, the sooner the head goes."""

    probe: HeadProbe
    quantity: str

    @classmethod
    def named(cls, name: str, registry: Registry) -> Ordering:
        """The ordering that an installed probe offers under this name."""
        offered = {
            way: cls(probe, quantity)
            for probe in installed_probes(registry, costly=True)
            if isinstance(probe, HeadProbe)
            for way, quantity in probe.orders.items()
        }
        if name not in offered:
            near = get_close_matches(name, offered, n=1)
            hint = f"\n    did you mean {near[0]}?" if near else ""
            raise KitError(f"heads cannot be ordered by {name!r}; known: {', '.join(sorted(offered))}{hint}")
        return offered[name]

    def order(self, inspector: Inspector, rows: Sequence[Ids]) -> list[Head]:
        """All heads, those that are needed least first."""
        kept = list(self.probe.gather(inspector, rows))
        if not kept:
            raise KitError(f"{self.probe.part_name()} has nothing to say about this model, so heads cannot be ordered")
        place = list(self.probe.quantities).index(self.quantity)
        values: dict[Head, float] = {}
        for site in kept[0]:
            numbers_HN = self.probe.conclude(self.probe.align([each[site] for each in kept]))
            values |= {(site, head): float(number) for head, number in enumerate(numbers_HN[:, place])}
        return sorted(values, key=values.__getitem__)
