"""The documentation builds without a warning, every link in it leads somewhere, and nothing asks for the network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from documentation.blocks import DOCS, ROOT, pages
from pages.browser import Browser, browser
from pages.browser_page import BrowserError

from kit import Kit, hookspecs

pytest.importorskip("mkdocs", reason="mkdocs is not installed: pip install 'kitformer[docs]'")
__all__ = ["browser"]
pytestmark = pytest.mark.xdist_group("docs")


class Page(HTMLParser):
    """The links, the names that links may lead to, what is loaded, and the text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.names: set[str] = set()
        self.text = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.names |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") not in ("canonical", "prev", "next"):
            self.loads.append(given.get("href", ""))
        elif tag in ("img", "script", "iframe") and given.get("src"):
            self.loads.append(given["src"])

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built pages."""
    place = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(place)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr, done.stderr
    return place


@pytest.fixture(scope="module")
def built(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in site.rglob("*.html")}


def test_every_page_is_there(site: Path) -> None:
    for page in pages():
        name = page.relative_to(DOCS).with_suffix(".html")
        assert (site / name.with_name("index.html" if page.name == "README.md" else name.name)).is_file(), name
    assert not list(site.rglob("*.py"))


def test_every_link_leads_somewhere(site: Path, built: dict[Path, Page]) -> None:
    assert [f"{path.relative_to(site)}: {link}" for path, link in _dead(site, built)] == []


def _dead(site: Path, built: dict[Path, Page]) -> Iterator[tuple[Path, str]]:
    for path, page in built.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or path.name == "404.html":
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            names = built[target].names if target in built and parts.fragment else {unquote(parts.fragment)}
            if not target.is_file() or unquote(parts.fragment) not in names:
                yield path, link


def test_nothing_is_fetched_from_elsewhere(built: dict[Path, Page], site: Path) -> None:
    for path, page in built.items():
        assert [load for load in page.loads if urlsplit(load).netloc] == [], path.relative_to(site)
    for style in site.rglob("*.css"):
        assert not re.search(r"@import|url\(['\"]?https?:", style.read_text(encoding="utf-8")), style.name


def test_pages_open_from_the_disk_and_can_be_searched(site: Path, browser: Browser) -> None:
    found = "document.querySelector('.md-search-result__link[href*=\"position.html\"]') !== null"
    # Who types before the page's script has run, as on a busy machine, has to open the page again.
    for again in (True, True, False):
        page = browser.open((site / "concepts" / "attention.html").as_uri(), width=1300)
        page.evaluate("document.querySelector('.md-search__input').focus()")
        page.type("rotary")
        try:
            page.wait(found, seconds=20)
            break
        except BrowserError:
            page.close()
            if not again:
                raise
    assert page.problems == []
    page.close()


def test_every_part_is_in_the_catalogue(built: dict[Path, Page], site: Path) -> None:
    registry = Kit().registry
    for kind in registry.kinds():
        for part in registry.components(kind):
            page = built[site / "reference" / "catalogue" / f"{kind}.html"]
            assert part.name.lower() in page.names, f"{kind} {part.name}"
            for option in part.component.options_type.model_fields:
                assert option == "use" or option in page.text, f"{part.name}: {option}"


def test_every_hook_command_key_law_and_name_has_its_place(built: dict[Path, Page], site: Path) -> None:
    import typer

    import kit
    from kit import laws
    from kit.cli.main import app
    from kit.recipe.sections import ModelSection, Recipe, TrainingSection

    def text(name: str) -> str:
        return built[site / "reference" / f"{name}.html"].text

    for name in [name for name, item in vars(hookspecs).items() if hasattr(item, "kit_spec")]:
        assert name in text("hooks")
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for name, command in commands.items():
        assert f"kit {name}" in text("commands")
        for option in getattr(command, "params", []):
            assert option.param_type_name == "argument" or option.opts[0] in text("commands"), (name, option.opts)
    for section in (Recipe, ModelSection, TrainingSection):
        for key in section.model_fields:
            assert key in text("recipe"), key
    for law in laws.LAWS.values():
        assert law.name in text("laws"), law.title
    anchors = {name.lower() for name in built[site / "reference" / "api.html"].names}
    assert [name for name in kit.__all__ if name.lower() not in anchors] == []
