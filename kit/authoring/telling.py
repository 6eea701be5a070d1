"""A report on a package as data for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from kit.authoring.examining import PackageReport, PartReport


def as_data(report: PackageReport) -> dict[str, Any]:
    """Everything that was found."""
    return {
        "package": report.package.title,
        "passed": report.passed,
        "plugins": [
            {
                "name": plugin.name,
                "distribution": plugin.distribution,
                "version": plugin.version,
                "api": plugin.api,
                "status": plugin.status,
                "error": plugin.error,
            }
            for plugin in report.package.plugins
        ],
        "parts": [_part(part, report) for part in report.parts],
    }


def _part(found: PartReport, report: PackageReport) -> dict[str, Any]:
    verdicts = [] if found.laws is None else found.laws.verdicts
    return {
        "kind": found.part.kind,
        "name": found.part.name,
        "version": found.part.component.version,
        "passed": found.passed,
        "note": found.note,
        "laws": [
            {"law": each.law.title, "sentence": each.law.sentence, "outcome": each.outcome, "message": each.message}
            for each in verdicts
        ],
        "broken": [each.law.title for each in verdicts if each.outcome == "failed"],
        "claims": [asdict(claim) for claim in found.claims],
        "measurements": [{**asdict(each), "times": each.times} for each in found.measurements],
        "many_devices": [{"law": each.law.title, "effect": effect} for each, effect in found.many_devices],
        "options": found.schema(report.package.kit),
    }
