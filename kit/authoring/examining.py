"""Examines a package: whether it loads, which laws its parts keep, what they claim, what they cost, what will break."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kit import laws
from kit.authoring.claims import Claim, claims_of
from kit.authoring.finding import Package
from kit.authoring.measuring import Measurement, measure
from kit.component import Component
from kit.errors import KitError
from kit.kit import Kit
from kit.laws import Law, Report, Verdict
from kit.recipe.bind import binder_of
from kit.registry import Registered

MANY_DEVICES = {
    "part.gradients": "a parameter without a gradient: DDP waits for it for ever, or has to look for it in every step",
    "part.registered": "a tensor that is not registered stays on the CPU, and is in no checkpoint",
    "part.leaves_nothing": "what a pass leaves behind differs between processes, since each sees another batch",
    "part.modes": "two processes that ask the same get different answers",
    "part.saving": "what is not saved is lost when a run is resumed or sharded",
    "part.seeds": "chance out of training makes processes disagree on what is best",
    "attention.batch_equals_single": "rows that mix: how a batch is shared out would change the result",
    "objective.shares": "the loss depends on how a batch is shared out among processes",
    "optimizer.resumes": "a run that is resumed goes on differently",
    "data.by_number": "every process would read other examples",
    "schedule.pure": "a run that is resumed has other rates",
}
"""The laws whose breach shows only with many devices or after a restart, and how it shows there."""


@dataclass(frozen=True)
class Extent:
    """How far a check goes."""

    slow: bool = False
    """Also the laws that take long."""
    quick: bool = False
    """Only one set of options for each part."""
    titles: frozenset[str] | None = None
    """Only these laws."""

    def laws_for(self, kind: str) -> list[Law] | None:
        """The laws to try; None where the kind has none, so that this is said."""
        known = laws.laws_of(kind)
        chosen = [
            each for each in known if (self.slow or not each.slow) and each.title in (self.titles or {each.title})
        ]
        return chosen if known else None


@dataclass(frozen=True)
class PartReport:
    """One part."""

    part: Registered
    laws: Report | None
    """None where the kit has no laws for its kind."""
    claims: tuple[Claim, ...]
    measurements: tuple[Measurement, ...]
    note: str = ""
    """Why something is missing here."""

    @property
    def title(self) -> str:
        """Kind and name."""
        return f"{self.part.kind} {self.part.name}"

    @property
    def passed(self) -> bool:
        """Whether it keeps every law that it claims."""
        return self.laws is None or self.laws.passed

    @property
    def many_devices(self) -> list[tuple[Verdict, str]]:
        """What will break with many GPUs: the verdict of a law, and how it shows."""
        failures = [] if self.laws is None else self.laws.failures
        return [(each, MANY_DEVICES[each.law.title]) for each in failures if each.law.title in MANY_DEVICES]

    def schema(self, kit: Kit) -> dict[str, Any]:
        """JSON Schema of its options, slots filled with what is installed."""
        bound = binder_of(kit.registry).bound(self.part.component.options_type)
        schema: dict[str, Any] = bound.model_json_schema()
        return schema


@dataclass(frozen=True)
class PackageReport:
    """All of a package."""

    package: Package
    parts: tuple[PartReport, ...]

    @property
    def failures(self) -> dict[str, str]:
        """Plugins that cannot be used, each with its cause."""
        return {plugin.title: str(plugin.error) for plugin in self.package.plugins if plugin.status != "loaded"}

    @property
    def passed(self) -> bool:
        """Whether all of it loads and keeps its laws."""
        return not self.failures and all(part.passed for part in self.parts)


def examine(
    package: Package,
    *,
    extent: Extent | None = None,
    timed: bool = True,
    progress: Callable[[str], None] | None = None,
) -> PackageReport:
    """Examine a package.

    extent: how many laws and options; timed: also time and memory; progress: is told what is looked at.
    """
    loaded = [plugin for plugin in package.plugins if plugin.status == "loaded"]
    told = progress or (lambda what: None)
    parts = [
        _examined(part, package.kit, extent or Extent(), timed, told) for plugin in loaded for part in plugin.parts
    ]
    return PackageReport(package, tuple(parts))


def _examined(part: Registered, kit: Kit, extent: Extent, timed: bool, progress: Callable[[str], None]) -> PartReport:
    component: type[Component] = part.component
    title = f"{part.kind} {part.name}"
    notes = []
    report = None
    try:
        report = laws.check(
            component,
            kit,
            extent.laws_for(part.kind),
            quick=extent.quick,
            progress=lambda law: progress(f"{title}: {law.title}"),
        )
    except KitError as error:
        notes.append(str(error).splitlines()[0])
    usable = report is not None and report.passed
    progress(f"{title}: what it claims and costs")
    measurements: list[Measurement] = []
    if timed and usable:
        try:
            measurements = measure(component, kit)
        except Exception as error:  # a size that no law tried: worth a note, not a traceback
            notes.append(f"could not be measured: {type(error).__name__}: {error}")
    # A part that breaks its laws has no business claiming more.
    claims = claims_of(component, kit) if usable else []
    return PartReport(part, report, tuple(claims), tuple(measurements), "; ".join(notes))
