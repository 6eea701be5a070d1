"""What MkDocs asks while it builds: generated pages are added, and stars in the navigation stand for what is there."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from generating import pages
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

_made: dict[str, str] = {}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Make the pages, and put every page that a star stands for in the navigation, unless it is named elsewhere."""
    _made.update(pages())
    here = Path(config.docs_dir)
    paths = sorted({*_made, *(path.relative_to(here).as_posix() for path in here.rglob("*.md"))})
    named = {path for path in _leaves(config.nav) if "*" not in path}
    config.nav = _filled(config.nav, [path for path in paths if path not in named])
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages; nothing of them is written into docs/."""
    for path, text in _made.items():
        files.append(File.generated(config, path, content=text))
    return files


def _leaves(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    below = nav.values() if isinstance(nav, dict) else nav or []
    return [leaf for each in below for leaf in _leaves(each)]


def _filled(nav: Any, paths: list[str]) -> Any:
    if isinstance(nav, dict):
        return {title: _filled(below, paths) for title, below in nav.items()}
    if isinstance(nav, list):
        filled: list[Any] = []
        for each in nav:
            starred = isinstance(each, str) and "*" in each
            filled += [path for path in paths if fnmatch(path, each)] if starred else [_filled(each, paths)]
        return [each for each in filled if not (isinstance(each, dict) and [] in each.values())]
    return nav
