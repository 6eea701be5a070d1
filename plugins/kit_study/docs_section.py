"""A study as a section of documentation: claim, set-up, charts, results with intervals, command and cost.

The generated part is between two marks and is replaced each time; the interpretation after the second mark is written
by hand and not changed.
"""

from __future__ import annotations

import json
from pathlib import Path

from kit import write_text
from kit_study.charts import charts
from kit_study.cost import study_cost
from kit_study.locks import merged_locks
from kit_study.page import format_mean
from kit_study.results import TESTS, Outcome, Report

PAGE = "studies.md"
FIGURES = 4
"""The most charts in a section; the page of the study has all."""
STYLE = (
    "<style>.title{font:600 13px sans-serif;fill:#888}.mark{font:11px sans-serif;fill:#888}"
    ".grid{stroke:#8885;stroke-width:.7}</style>"
)
BEGIN = """# Studies

Each claim was put to the test by `kit study`; the numbers are what came out, also where it did not hold.
"""


def write_section(found: Report, folder: Path, file: Path) -> Path:
    """Writes the section of a study into `studies.md` of a folder, with its figures, and returns the path."""
    path = folder / PAGE
    text = path.read_text() if path.is_file() else BEGIN
    begin, end = (f"<!-- {word} {found.plan.study.name} -->" for word in ("study", "end of"))
    body = f"{begin}\n{section(found, folder, file)}{end}"
    if begin in text and end in text:
        text = text[: text.index(begin)] + body + text[text.index(end) + len(end) :]
    else:
        text = f"{text.rstrip()}\n\n{body}\n\n**What it means.** (not written yet)\n"
    folder.mkdir(parents=True, exist_ok=True)
    write_text(path, text)
    return path


def section(found: Report, folder: Path, file: Path) -> str:
    """Renders the section in Markdown; writes its figures into `studies/` of the folder."""
    study, described = found.plan.study, found.plan.study.section
    better = "higher" if found.plan.higher else "lower"
    parts = [f"## {study.name}\n", f"**Claim.** {described.claim}\n" if described.claim else ""]
    parts += [f"**Set-up.** {described.setup}\n" if described.setup else ""]
    command = f"`kit study {file}`{' --quick' if study.quick else ''}"
    if not any(row.results for outcome in found.outcomes for row in outcome.rows):
        return "\n".join([*(part for part in parts if part), f"**Numbers.** Not run yet: {command}.\n"])
    figures = folder / "studies"
    figures.mkdir(parents=True, exist_ok=True)
    for number, chart in enumerate([chart for chart in charts(found) if chart.svg()][:FIGURES], 1):
        name = f"{study.name}-{number}.svg"
        drawn = chart.svg()
        inside = drawn.index(">") + 1
        write_text(figures / name, drawn[:inside] + STYLE + drawn[inside:] + "\n")
        parts.append(f"![{chart.title}](studies/{name})\n")
    parts.append(
        f"**Numbers.** {described.metric}, {better} is better; ± is half of a 95 % interval over seeds. {TESTS}.\n"
    )
    for outcome in found.outcomes:
        parts += [f"*{outcome.title}*\n" if outcome.title else "", _table(found, outcome), f"{outcome.verdict}.\n"]
        parts.append(_other_figures(found, outcome))
    locks = f"{study.name}.locks.json"
    write_text(figures / locks, json.dumps(merged_locks(found.plan), indent=1, ensure_ascii=False) + "\n")
    parts.append(
        f"**Command.** {command}; {study_cost(found.plan).words}. [What each run ran with](studies/{locks}).\n"
    )
    return "\n".join(part for part in parts if part)


def _table(found: Report, outcome: Outcome) -> str:
    """Renders means, differences and costs as a table."""
    heads = [found.plan.study.compared or "", found.plan.study.section.metric, "against the base", "p"]
    lines = ["| " + " | ".join([*heads, "seeds", "parameters", "training s"]) + " |", "|" + "---|" * (len(heads) + 3)]
    for row in outcome.rows:
        parameters, seconds = row.mean("parameters"), row.mean("seconds")
        cells = [f"**{row.label}**" if row.label == outcome.winner else row.label, format_mean(row.estimate)]
        cells += ["base" if row.is_base else format_mean(row.difference, signed=True)]
        cells += ["" if row.p is None else f"{row.p:.2g}"]
        cells += [str(len(row.results)), "" if parameters is None else f"{parameters:,.0f}"]
        cells += ["" if seconds is None else f"{seconds:.0f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _other_figures(found: Report, outcome: Outcome) -> str:
    """Renders the other figures as a table; empty without any."""
    known = {row.label: row.figures() for row in outcome.rows}
    names = sorted({name for figures in known.values() for name in figures} - {found.plan.study.section.metric})
    if not names:
        return ""
    lines = ["| measured besides | " + " | ".join(known) + " |", "|" + "---|" * (len(known) + 1)]
    lines += ["| " + " | ".join([name, *(format_mean(known[row].get(name)) for row in known)]) + " |" for name in names]
    return "\n".join(lines) + "\n"
