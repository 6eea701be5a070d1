"""Fresh virtual environments that have wheels which were just built, and borrow what those depend on."""

from __future__ import annotations

import json
import os
import site
import subprocess
import sys
import venv
from pathlib import Path


def build(project: Path, folder: Path) -> Path:
    """The wheel of a project."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=project, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


class Environment:
    """A virtual environment with some wheels: no editable install, no path into this tree."""

    def __init__(self, folder: Path, wheels: list[Path]) -> None:
        self.folder = folder
        venv.create(folder, with_pip=False, symlinks=True)
        self.python = folder / "bin" / "python"
        for wheel in wheels:
            self.install(wheel)
        (packages,) = folder.glob("lib/python*/site-packages")
        # A folder named in a .pth comes after the environment's own packages, and its own .pth files, which hold the
        # editable install, are not read.
        (packages / "borrowed.pth").write_text("\n".join(site.getsitepackages()) + "\n")

    def install(self, wheel: Path) -> None:
        """Install a wheel, and nothing that it depends on."""
        pip = [sys.executable, "-m", "pip", "--python", str(self.python), "install", "--quiet"]
        subprocess.run([*pip, "--no-deps", "--no-index", str(wheel)], check=True, capture_output=True)

    def run(self, *arguments: str, within: Path | None = None) -> str:
        """What a command of the environment's Python prints."""
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        done = subprocess.run(
            [str(self.python), *arguments],
            cwd=within or self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def kit(self, *arguments: str, within: Path | None = None) -> str:
        """What `kit` prints, as it was installed."""
        return self.run(str(self.folder / "bin" / "kit"), *arguments, within=within)

    def answer(self, code: str, within: Path | None = None) -> object:
        """What a piece of Python prints as JSON."""
        return json.loads(self.run("-c", f"import json\n{code}", within=within).splitlines()[-1])
