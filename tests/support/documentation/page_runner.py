"""A folder in which the blocks of one page are played in order, as its reader would."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import subprocess
import sys
import tomllib
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from session.compiled_kernels import cache_with_kernels

from documentation.blocks import Block, agrees
from documentation.commands import misspelt
from kit import Kit

SHELL = {"cat", "cp", "head", "ls", "mkdir", "printf", "wc"}
"""Programs that a page may call besides kit, pip, pytest, python and cd."""


class Stage:
    """Plays blocks; `outputs` holds what was really printed where a page shows something else."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.here = folder
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.printed = ""
        self.code = 0
        self.outputs: dict[int, str] = {}

    def play(self, block: Block) -> str | None:
        """Play one block; returns what is wrong."""
        if block.mark == "file":
            return self._write(block)
        if block.mark == "shown":
            whole = _lines((self.folder / block.what).read_text(encoding="utf-8"))
            return None if _lines(block.text) in whole else f"{block.what} has no such lines"
        if block.mark == "printed":
            return self._compare(block, block.text, self.printed, block.what == "loosely")
        if block.mark == "not run":
            return misspelt(block.text) if block.language == "console" else None
        if block.mark == "fragment":
            (self.folder / ".fragment.yaml").write_text(f"extends: {block.what}\n{block.text}", encoding="utf-8")
            return self._check(self.folder / ".fragment.yaml")
        return self._play_unmarked(block)

    def _play_unmarked(self, block: Block) -> str | None:
        if block.language == "python":
            with self._heard() as told:
                exec(compile(block.text, f"<line {block.line}>", "exec"), self.names)
            self.printed = told.getvalue()
        elif block.language == "yaml":
            (self.folder / ".recipe.yaml").write_text(block.text, encoding="utf-8")
            return self._check(self.folder / ".recipe.yaml")
        elif block.language == "console" and block.text.startswith("$ "):
            return self._run(block)
        elif block.language in ("console", "sh"):
            return misspelt(block.text)
        elif block.language in ("toml", "json"):
            (tomllib if block.language == "toml" else json).loads(block.text)
        elif block.language not in ("", "text"):
            return f"nothing is known about blocks in {block.language}; give it a mark"
        return None

    def _write(self, block: Block) -> str | None:
        path = self.folder / block.what
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")
        return self._check(path) if path.suffix == ".yaml" else None

    def _check(self, path: Path) -> str | None:
        from kit_study.study_file import read_study

        keys = set(yaml.safe_load(path.read_text(encoding="utf-8")))
        kit = Kit()
        with self._heard():
            if "axes" in keys or "recipe" in keys:
                read_study(path, kit.registry)
            elif "model" in keys or "extends" in keys:
                kit.recipe(path)
            else:
                return "this is neither a recipe nor a study: give it a mark"
        return None

    def _run(self, block: Block) -> str | None:
        wrong, told = [], []
        for command, shown in block.commands():
            self.code = 0
            printed = self._command(command).strip("\n")
            if self.code and not set(shown.split()) - {"..."}:
                wrong.append(f"$ {command}\nends with {self.code}, which the page does not show:\n{printed}")
            elif shown.strip() and not agrees(shown, printed, block.what == "loosely"):
                wrong.append(f"$ {command}\nprints\n{printed}\nand the page shows\n{shown}")
            told.append(f"$ {command}\n{printed}\n" if shown.strip() else f"$ {command}\n")
        if wrong:
            self.outputs[block.line] = "\n".join(told)
        return "\n".join(wrong) or None

    def _compare(self, block: Block, shown: str, printed: str, loosely: bool) -> str | None:
        if agrees(shown, printed, loosely):
            return None
        self.outputs[block.line] = printed
        return f"printed:\n{printed}"

    def _command(self, command: str) -> str:
        words = shlex.split(command, comments=True)
        if words[0] == "kit":
            return self._kit(words[1:])
        if words[0] == "cd":
            self.here = (self.here / words[1]).resolve()
            return ""
        if words[:2] == ["pip", "install"]:
            self._install(words[-1].partition("[")[0])
            return ""
        if words[0] in ("pytest", "python"):
            module = ["-m", "pytest", "-p", "no:cacheprovider"] if words[0] == "pytest" else []
            words = [sys.executable, *module, *words[1:]]
        assert words[0] in SHELL or words[0] == sys.executable, f"a page may not call {words[0]}"
        environment = {**os.environ, "PYTHONPATH": str(self.folder / "installed"), "COLUMNS": "100", "NO_COLOR": "1"}
        done = subprocess.run(words, cwd=self.here, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def _kit(self, words: list[str]) -> str:
        from kit.cli.main import main

        with self._heard() as told, pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["kit", *words])
            try:
                main()
            except SystemExit as end:
                self.code = int(end.code or 0)
        return told.getvalue()

    def _install(self, folder: str) -> None:
        """What `pip install` leaves behind, without its seconds: the metadata, and a way to the source."""
        source = self.here / folder
        project = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        name = project["name"].replace("-", "_")
        info = self.folder / "installed" / f"{name}-{project['version']}.dist-info"
        info.mkdir(parents=True, exist_ok=True)
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
        )
        points = project["entry-points"]["kit.plugins"]
        lines = [f"{point} = {module}\n" for point, module in points.items()]
        (info / "entry_points.txt").write_text("[kit.plugins]\n" + "".join(lines))
        for module in points.values():
            place = next(path for path in (source / "src" / module, source / module) if path.exists())
            (self.folder / "installed" / module).symlink_to(place, target_is_directory=True)

    @contextlib.contextmanager
    def _heard(self) -> Iterator[io.StringIO]:
        """In the folder, with what is installed there, and everything that is printed kept."""
        told, known = io.StringIO(), set(sys.modules)
        with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            patch.chdir(self.here)
            patch.setenv("COLUMNS", "120")
            patch.setenv("NO_COLOR", "1")
            patch.setenv("XDG_CACHE_HOME", str(cache_with_kernels(self.folder / ".cache")))
            patch.syspath_prepend(str(self.folder / "installed"))
            with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
                yield told
        for name in set(sys.modules) - known:
            file = getattr(sys.modules[name], "__file__", None) or ""
            if file.startswith(str(self.folder)) and "." not in name:
                self.names.setdefault(" modules", set()).add(name)

    def clear(self) -> None:
        """Forget the modules that the page brought."""
        for name in self.names.get(" modules", ()):
            for each in [each for each in sys.modules if each == name or each.startswith(f"{name}.")]:
                del sys.modules[each]


def _lines(text: str) -> str:
    """A text without the margin of its lines, for an excerpt has another."""
    return "\n".join(line.strip() for line in text.strip().splitlines())


def play(page_blocks: list[Block], stage: Stage) -> list[str]:
    """Play blocks in order; returns what is wrong, each with its line."""
    problems = []
    for block in page_blocks:
        try:
            wrong = stage.play(block)
        except Exception:
            problems.append(f"line {block.line}: {traceback.format_exc()}")
            break
        if wrong:
            problems.append(f"line {block.line}: {wrong}")
    stage.clear()
    return problems
