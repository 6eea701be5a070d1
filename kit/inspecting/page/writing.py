"""Puts a page together: the template, its style and scripts, the data, and a policy under which nothing is fetched."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path

from kit.inspecting.page.contents import contents
from kit.inspecting.page.scene import Scene
from kit.runs.atomic import write_text

MOST = 2_000_000
"""The most bytes of a page, if nobody says otherwise."""
SCRIPTS = ("data", "colours", "picture", "tiles", "heatmap", "graph", "cards", "charts", "page")
"""The parts of the script, in the order in which they need each other."""


@dataclass(frozen=True)
class Page:
    """A page as it is written."""

    html: str
    policy: str
    """Its content security policy: its own script and style may run, by their hashes, and nothing is fetched."""
    left_out: int
    """How many heads there was no room for."""

    def write(self, path: Path) -> Path:
        """Put it in a file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, self.html)
        return path


def page(scene: Scene, most: int = MOST) -> Page:
    """The page of a scene, of no more than so many bytes."""
    script, style = code()
    policy = _policy(script, style)
    title = f"{' against '.join(side.name for side in reversed(scene.sides))}: attention"
    fixed = {"title": escape(_whole(title)), "policy": policy, "style": style, "script": script, "table": _table(scene)}
    beside = len(_template().encode()) + sum(len(text.encode()) for text in fixed.values())
    filled = contents(scene, most - beside)
    parts = {**fixed, "facts": filled.facts, "packed": filled.packed}
    # In one go: what is put in is never looked at again for a place to put something.
    html = re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _template())
    return Page(html, policy, filled.left_out)


@cache
def code() -> tuple[str, str]:
    """The script and the style that are shipped with the kit, without indents and remarks: every page carries them."""
    script = "\n".join(_asset(f"{name}.js") for name in SCRIPTS)
    return f'"use strict";\n{script}', re.sub(
        r"\s*([{};]|: |, )\s*", lambda found: found[1].strip(), _asset("page.css")
    )


@cache
def _template() -> str:
    return _asset("page.html")


def _asset(name: str) -> str:
    text = (files("kit.inspecting.page") / "assets" / name).read_text(encoding="utf-8")
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//"))


def _policy(script: str, style: str) -> str:
    rules = {
        "default-src": "'none'",
        "script-src": _hash(script),
        "style-src": _hash(style),
        "img-src": "data: blob:",  # a picture that is saved is drawn from its own SVG
        "base-uri": "'none'",
        "form-action": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _whole(text: str) -> str:
    """Text that can be written as UTF-8: half a character becomes a mark."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _table(scene: Scene) -> str:
    """The measures for whoever runs no scripts."""
    rows = []
    for side in scene.sides:
        if side.report is None:
            continue
        names = list(side.report.meanings)
        head = "".join(f"<th>{escape(name)}</th>" for name in ["head", "what it does", *names])
        rows.append(f"<table><caption>{escape(_whole(side.name))}</caption><tr>{head}</tr>")
        for card in side.report.heads:
            values = [card.estimates[name].value if name in card.estimates else None for name in names]
            cells = [card.name, card.role, *("" if value is None else f"{value:.3g}" for value in values)]
            rows.append("<tr>" + "".join(f"<td>{escape(_whole(cell))}</td>" for cell in cells) + "</tr>")
        rows.append("</table>")
    return "\n".join(rows) or "<p>Nothing was measured.</p>"
