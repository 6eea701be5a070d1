"""Orders of heads for pruning, by the measures that installed probes offer for `kit prune --by`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from kit import ExampleIds, HeadId, HeadProbe, Inspector, KitError, Probe, Registry


def installed_probes(registry: Registry, costly: bool = False) -> list[Probe]:
    """Returns all installed probes with default options; costly: including those that need many forward passes."""
    found: list[Probe] = []
    for part in registry.components("probe"):
        component = part.component
        assert issubclass(component, Probe)
        if costly or not component.costly:
            found.append(component(component.options_type.model_validate({"use": part.name})))
    return found


@dataclass(frozen=True)
class HeadOrder:
    """An order of heads by one measure of a probe, lowest value first."""

    probe: HeadProbe
    quantity: str

    @classmethod
    def named(cls, name: str, registry: Registry) -> HeadOrder:
        """Returns the order of this name, which an installed probe offers."""
        offered = {
            word: cls(probe, quantity)
            for probe in installed_probes(registry, costly=True)
            if isinstance(probe, HeadProbe)
            for word, quantity in probe.orders.items()
        }
        if name not in offered:
            near = get_close_matches(name, offered, n=1)
            hint = f"\n    did you mean {near[0]}?" if near else ""
            raise KitError(f"heads cannot be ordered by {name!r}; known: {', '.join(sorted(offered))}{hint}")
        return offered[name]

    def order(self, inspector: Inspector, rows: Sequence[ExampleIds]) -> list[HeadId]:
        """Returns all heads of the model in the order in which they are pruned."""
        collected = list(self.probe.gather(inspector, rows))
        if not collected:
            raise KitError(f"{self.probe.name()} has nothing to say about this model, so heads cannot be ordered")
        column = list(self.probe.quantities).index(self.quantity)
        values: dict[HeadId, float] = {}
        for site in collected[0]:
            values_HN = self.probe.aggregate(self.probe.align([each[site] for each in collected]))
            values |= {(site, head): float(value) for head, value in enumerate(values_HN[:, column])}
        return sorted(values, key=values.__getitem__)
