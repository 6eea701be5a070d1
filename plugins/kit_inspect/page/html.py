"""HTML of an attention page: template, style, scripts and data, with a content security policy that blocks requests."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path

from kit import write_text
from kit_inspect.page.payload import payload
from kit_inspect.page.view import PageView

MAX_BYTES = 2_000_000
"""The default maximum size of a page in bytes."""
SCRIPTS = ("data", "colours", "picture", "tiles", "heatmap", "graph", "cards", "charts", "page")
"""The parts of the script, in order of dependency."""


@dataclass(frozen=True)
class Page:
    """A rendered page."""

    html: str
    policy: str
    """The content security policy: script and style by their hashes, no requests."""
    left_out: int
    """The number of heads without their weights."""

    def write(self, path: Path) -> Path:
        """Writes the page to a file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, self.html)
        return path


def render(view: PageView, most: int = MAX_BYTES) -> Page:
    """Renders the page of a view, in at most so many bytes."""
    script, style = code()
    policy = _policy(script, style)
    title = f"{' against '.join(model.name for model in reversed(view.models))}: attention"
    fixed = {
        "title": escape(_encodable(title)),
        "policy": policy,
        "style": style,
        "script": script,
        "table": _table(view),
    }
    overhead = len(_template().encode()) + sum(len(text.encode()) for text in fixed.values())
    data = payload(view, most - overhead)
    parts = {**fixed, "facts": data.facts, "packed": data.packed}
    # One pass, so that placeholders in inserted text are not replaced.
    html = re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _template())
    return Page(html, policy, data.left_out)


@cache
def code() -> tuple[str, str]:
    """Returns the script and the style, without indents and comments."""
    script = "\n".join(_asset(f"{name}.js") for name in SCRIPTS)
    return f'"use strict";\n{script}', re.sub(
        r"\s*([{};]|: |, )\s*", lambda found: found[1].strip(), _asset("page.css")
    )


@cache
def _template() -> str:
    return _asset("page.html")


def _asset(name: str) -> str:
    text = (files("kit_inspect.page") / "assets" / name).read_text(encoding="utf-8")
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//"))


def _policy(script: str, style: str) -> str:
    rules = {
        "default-src": "'none'",
        "script-src": _hash(script),
        "style-src": _hash(style),
        "img-src": "data: blob:",  # pictures are saved from SVG data URLs
        "base-uri": "'none'",
        "form-action": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _encodable(text: str) -> str:
    """Replaces lone surrogates by question marks, so that a text can be encoded as UTF-8."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _table(view: PageView) -> str:
    """Renders the head report as a table, which is shown without scripts."""
    rows = []
    for model in view.models:
        if model.report is None:
            continue
        names = list(model.report.meanings)
        head = "".join(f"<th>{escape(name)}</th>" for name in ["head", "what it does", *names])
        rows.append(f"<table><caption>{escape(_encodable(model.name))}</caption><tr>{head}</tr>")
        for card in model.report.heads:
            values = [card.estimates[name].value if name in card.estimates else None for name in names]
            cells = [card.name, card.role, *("" if value is None else f"{value:.3g}" for value in values)]
            rows.append("<tr>" + "".join(f"<td>{escape(_encodable(cell))}</td>" for cell in cells) + "</tr>")
        rows.append("</table>")
    return "\n".join(rows) or "<p>Nothing was measured.</p>"
