"""Examination of a package: load errors, law verdicts, claimed capabilities, time and memory, multi-device effects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import typer

from kit import Component, Kit, KitError, LoadedPlugin, Registered, bind, laws
from kit.laws import Law, Package, Report, Verdict
from kit_author.claims import Claim, claims_of
from kit_author.measurement import Measurement, measure

MANY_DEVICES = {
    "part.gradients": "a parameter without a gradient: DDP waits for it for ever, or has to look for it in every step",
    "part.registered_tensors": "a tensor that is not registered stays on the CPU, and is in no checkpoint",
    "part.no_hidden_state": "what a pass leaves behind differs between processes, since each sees another batch",
    "part.grad_modes": "two processes that ask the same get different answers",
    "part.state_dict": "what is not saved is lost when a run is resumed or sharded",
    "part.reproducibility": "chance out of training makes processes disagree on what is best",
    "attention.batch_invariance": "rows that mix: how a batch is shared out would change the result",
    "objective.additivity": "the loss depends on how a batch is shared out among processes",
    "optimizer.state_dict": "a run that is resumed goes on differently",
    "data.determinism": "every process would read other examples",
    "schedule.stateless": "a run that is resumed has other rates",
}
"""Laws whose violation only matters on several devices or after a restart, and the effect there."""


@dataclass(frozen=True)
class Extent:
    """The laws and sets of options that are tested."""

    slow: bool = False
    """Whether slow laws are tested too."""
    quick: bool = False
    """Whether only one set of options is tested for each part."""
    titles: frozenset[str] | None = None
    """The titles of the laws to test; None for all."""

    def laws_for(self, kind: str) -> list[Law] | None:
        """Returns the laws to test; None if the kit has none for the kind."""
        known = laws.laws_of(kind)
        chosen = [
            each for each in known if (self.slow or not each.slow) and each.title in (self.titles or {each.title})
        ]
        return chosen if known else None


@dataclass(frozen=True)
class PartReport:
    """The report on one part."""

    part: Registered
    laws: Report | None
    """The verdicts; None if the kit has no laws for the kind."""
    claims: tuple[Claim, ...]
    measurements: tuple[Measurement, ...]
    note: str = ""
    """Why verdicts or measurements are missing."""

    @property
    def title(self) -> str:
        """Kind and name."""
        return f"{self.part.kind} {self.part.name}"

    @property
    def passed(self) -> bool:
        """Whether no law is broken."""
        return self.laws is None or self.laws.passed

    @property
    def untried(self) -> str | None:
        """Why no law was tried; None if one was."""
        return f"the kit has no laws for the kind {self.part.kind}" if self.laws is None else self.laws.untried

    @property
    def many_devices(self) -> list[tuple[Verdict, str]]:
        """The broken laws that matter on several devices, each with its effect."""
        failures = [] if self.laws is None else self.laws.failures
        return [(each, MANY_DEVICES[each.law.title]) for each in failures if each.law.title in MANY_DEVICES]

    def schema(self, kit: Kit) -> dict[str, Any]:
        """Returns the JSON Schema of the options, with the installed parts in their slots."""
        schema: dict[str, Any] = bind(self.part.component.options_type, kit.registry).model_json_schema()
        return schema

    def as_data(self, kit: Kit) -> dict[str, Any]:
        """Returns the report as JSON data."""
        verdicts = [] if self.laws is None else self.laws.verdicts
        return {
            "kind": self.part.kind,
            "name": self.part.name,
            "version": self.part.component.version,
            "passed": self.passed,
            "untried": self.untried,
            "note": self.note,
            "laws": [
                {"law": each.law.title, "sentence": each.law.sentence, "outcome": each.outcome, "message": each.message}
                for each in verdicts
            ],
            "broken": [each.law.title for each in verdicts if each.outcome == "failed"],
            "claims": [asdict(claim) for claim in self.claims],
            "measurements": [{**asdict(each), "time_ratio": each.time_ratio} for each in self.measurements],
            "many_devices": [{"law": each.law.title, "effect": effect} for each, effect in self.many_devices],
            "options": self.schema(kit),
        }


@dataclass(frozen=True)
class PackageReport:
    """The report on a package."""

    package: Package
    parts: tuple[PartReport, ...]
    command_errors: dict[str, str]
    """Why the commands of a plugin cannot be added, by its title."""

    @property
    def failures(self) -> dict[str, str]:
        """What is wrong with plugins that cannot be loaded, or whose commands cannot be added, by their title."""
        unloaded = [plugin for plugin in self.package.plugins if plugin.status != "loaded"]
        return {
            **{plugin.title: f"cannot be loaded: {plugin.error}" for plugin in unloaded},
            **{title: f"cannot add its commands: {error}" for title, error in self.command_errors.items()},
        }

    @property
    def passed(self) -> bool:
        """Whether all plugins are loaded with their commands and no law is broken."""
        return not self.failures and all(part.passed for part in self.parts)

    @property
    def untried(self) -> list[PartReport]:
        """The parts of which no law was tried."""
        return [part for part in self.parts if part.untried is not None]

    def as_data(self) -> dict[str, Any]:
        """Returns the report as JSON data."""
        return {
            "package": self.package.title,
            "passed": self.passed,
            "untried": [part.title for part in self.untried],
            "plugins": [
                {
                    "name": plugin.name,
                    "distribution": plugin.distribution,
                    "version": plugin.version,
                    "api": plugin.api,
                    "status": plugin.status,
                    "error": plugin.error,
                    "command_error": self.command_errors.get(plugin.title),
                }
                for plugin in self.package.plugins
            ],
            "parts": [part.as_data(self.package.kit) for part in self.parts],
        }


def examine(
    package: Package,
    *,
    extent: Extent | None = None,
    timed: bool = True,
    progress: Callable[[str], None] | None = None,
) -> PackageReport:
    """Examines all parts of a package.

    extent: the laws and options to test; timed: measures time and memory too; progress: called before each step.
    """
    loaded = [plugin for plugin in package.plugins if plugin.status == "loaded"]
    report_step = progress or (lambda step: None)
    parts = [
        _examine_part(part, package.kit, extent or Extent(), timed, report_step)
        for plugin in loaded
        for part in plugin.parts
    ]
    errors = {plugin.title: error for plugin in loaded if (error := _command_error(plugin, package.kit))}
    return PackageReport(package, tuple(parts), errors)


def _command_error(plugin: LoadedPlugin, kit: Kit) -> str | None:
    """Adds the commands of a plugin to an application of their own; returns why that fails."""
    app = typer.Typer()
    app.callback()(lambda: None)
    try:
        kit.hook_of(plugin, "kit_commands")(app=app)
        typer.main.get_command(app)  # reads the parameters of every command
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too, and parameters of a type that typer does not know
        return f"{type(error).__name__}: {error}"
    return None


def _examine_part(
    part: Registered, kit: Kit, extent: Extent, timed: bool, progress: Callable[[str], None]
) -> PartReport:
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
    usable = report is not None and report.passed and report.untried is None
    progress(f"{title}: what it claims and costs")
    measurements: list[Measurement] = []
    if timed and usable:
        try:
            measurements = measure(component, kit)
        except Exception as error:  # a size that no law tests; the report gets a note
            notes.append(f"could not be measured: {type(error).__name__}: {error}")
    # Claims are only tested on a part that keeps laws and breaks none.
    claims = claims_of(component, kit) if usable else []
    return PartReport(part, report, tuple(claims), tuple(measurements), "; ".join(notes))
