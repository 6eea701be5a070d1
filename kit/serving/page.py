"""The page: one file, and a policy under which it can run its own script and reach its own server, and nothing else."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class Page:
    """The page as it is sent."""

    html: str
    policy: str
    """The content security policy: what is written in the file may run, by its hash, and nothing that is added."""


@cache
def page() -> Page:
    """Read the page that is shipped with the kit."""
    html = (files("kit.serving") / "page.html").read_text(encoding="utf-8")
    policy = {
        "default-src": "'none'",
        "script-src": _hashes(html, "script"),
        "style-src": _hashes(html, "style"),
        "connect-src": "'self'",
        "img-src": "data:",
        "frame-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
    }
    return Page(html, "; ".join(f"{name} {value}" for name, value in policy.items()))


def _hashes(html: str, tag: str) -> str:
    blocks = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
    digests = (base64.b64encode(hashlib.sha256(block.encode()).digest()).decode() for block in blocks)
    return " ".join(f"'sha256-{digest}'" for digest in digests)
