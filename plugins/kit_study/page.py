"""The results of a study as one self-contained HTML file, in light and dark style."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path

from kit import Lock, write_text
from kit_study.charts import charts
from kit_study.cost import study_cost
from kit_study.planning import result_of
from kit_study.results import TESTS, Outcome, Report, Row
from kit_study.statistics import Estimate

STYLE = """
:root{color-scheme:light dark;--ink:#1a1a1a;--soft:#666;--line:#ccc;--paper:#fff;--good:#00795c}
@media(prefers-color-scheme:dark){:root{--ink:#e6e6e6;--soft:#999;--line:#444;--paper:#16181c;--good:#4cc7a0}}
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper)}
body{max-width:60rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;margin:.5rem 0 1rem;font-variant-numeric:tabular-nums;display:block;overflow-x:auto}
th,td{text-align:right;padding:.2rem .8rem;border-bottom:1px solid var(--line)}
th:first-child,td:first-child{text-align:left}
svg{width:100%;max-width:44rem;height:auto;display:block;margin:1rem 0}
svg .title{font:600 13px system-ui;fill:var(--ink)}
svg .mark{font:11px system-ui;fill:var(--soft)}svg .grid{stroke:var(--line);stroke-width:.7;fill:none}
.winner{color:var(--good);font-weight:600}.soft{color:var(--soft)}pre{overflow-x:auto}
"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def write_page(found: Report) -> Path:
    """Writes the page into the study's folder and returns its path."""
    path = found.plan.folder / "page.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, page(found))
    return path


def page(found: Report) -> str:
    """Renders the page."""
    section = found.plan.study.section
    better = "higher" if found.plan.higher else "lower"
    parts = [f"<h1>{escape(found.plan.study.name)}</h1>"]
    parts += [f"<p>{escape(text)}</p>" for text in (section.claim, section.setup) if text]
    parts.append(
        f'<p class="soft">{escape(section.metric)}, {better} is better; ± is half of a 95 % interval over seeds '
        f"(Student's t). {TESTS}.</p>"
    )
    for outcome in found.outcomes:
        parts.append(f"<h2>{escape(outcome.title)}</h2>" if outcome.title else "")
        parts.append(table(found, outcome))
        parts.append(f'<p class="winner">{escape(outcome.verdict)}</p>')
    parts += [chart.svg() for chart in charts(found)]
    parts.append(_figures(found))
    failures = [failure for outcome in found.outcomes for row in outcome.rows for failure in row.failures]
    if failures:
        parts.append(f"<h2>Failed cells</h2><pre>{escape(chr(10).join(failures))}</pre>")
    parts.append(f'<p class="soft">{study_cost(found.plan).words}.</p>')
    parts.append(_environment(found))
    head = f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    head += '<meta name="viewport" content="width=device-width,initial-scale=1">'
    title = f"<title>{escape(found.plan.study.name)}</title><style>{STYLE}</style>"
    return f'<!doctype html><html lang="en"><head>{head}{title}</head><body>{"".join(parts)}</body></html>\n'


def table(found: Report, outcome: Outcome) -> str:
    """Renders one condition as a table."""
    study = found.plan.study
    heads = [study.compared or "", study.section.metric, "against the base", "p", "seeds", "rate"]
    heads += ["parameters", "training FLOPs", "training s"]
    rows = "".join(_row(row, row.label == outcome.winner) for row in outcome.rows)
    cells = "".join(f"<th>{escape(head)}</th>" for head in heads)
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{rows}</tbody></table>"


def _row(row: Row, best: bool) -> str:
    against = "base" if row.is_base else format_mean(row.difference, signed=True)
    numbers = [row.mean("parameters"), row.mean("flops"), row.mean("seconds")]
    forms = ("{:,.0f}", "{:.2e}", "{:.1f}")
    cells = [
        row.label,
        format_mean(row.estimate),
        against,
        "" if row.p is None else f"{row.p:.2g}",
        f"{len(row.results)}" + (f" ({len(row.failures)} failed)" if row.failures else ""),
        "" if row.swept is None else f"{row.swept:g}",
        *("" if number is None else form.format(number) for form, number in zip(forms, numbers, strict=True)),
    ]
    style = ' class="winner"' if best else ""
    return f"<tr{style}>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def _figures(found: Report) -> str:
    """Renders all figures as a table."""
    names = dict.fromkeys(name for outcome in found.outcomes for row in outcome.rows for name in row.figures())
    if not names:
        return ""
    body = []
    for outcome in found.outcomes:
        for row in outcome.rows:
            known = row.figures()
            cells = "".join(f"<td>{escape(format_mean(known.get(name)))}</td>" for name in names)
            body.append(f"<tr><td>{escape(' · '.join(filter(None, (row.label, outcome.title))))}</td>{cells}</tr>")
    heads = "".join(f"<th>{escape(name)}</th>" for name in names)
    return f"<h2>All figures</h2><table><thead><tr><th></th>{heads}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def _environment(found: Report) -> str:
    """Renders the environment of the runs, from the lock of one cell."""
    for number in range(len(found.plan.combinations)):
        for cell in found.plan.cells(number) or ():
            if result_of(cell) is not None and (cell.folder / "lock.json").is_file():
                lock = Lock.read(cell.folder / "lock.json")
                about = {"torch": lock.torch, "python": lock.python, "platform": lock.platform, "data": dict(lock.data)}
                return f'<h2>Made with</h2><pre class="soft">{escape(json.dumps(about, indent=1))}</pre>'
    return ""


def format_mean(found: Estimate | None, *, signed: bool = False) -> str:
    """Formats a mean with its confidence interval."""
    if found is None:
        return ""
    mean = f"{found.mean:+.4g}" if signed else f"{found.mean:.4g}"
    return mean if found.half is None else f"{mean} ± {found.half:.2g}"
