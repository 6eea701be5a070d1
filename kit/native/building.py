"""Compiles a C++ file into a library of torch operations, once for each machine; later processes find it ready."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

ARM = platform.machine() in ("aarch64", "arm64")
"""Where clang understands another word for «this very processor» than elsewhere."""
FLAGS: tuple[str, ...] = (
    "-std=c++20",
    "-O3",
    "-mcpu=native" if ARM else "-march=native",
    "-fno-math-errno",
    "-fPIC",
    "-shared",
)
if sys.platform == "darwin":
    FLAGS += ("-undefined", "dynamic_lookup")  # what Python has is found when the library is loaded


class NotBuilt(Exception):
    """Why there is no library."""


def compiler() -> str | None:
    """The C++ compiler of this machine: what CXX names, or g++, or clang++; None where there is none."""
    wanted = [os.environ["CXX"]] if os.environ.get("CXX") else ["g++", "clang++"]
    return next((found for name in wanted if (found := shutil.which(name))), None)


def build(source: Path) -> Path:
    """The library that this file compiles to; made by the first call on a machine, which takes a few seconds."""
    program = compiler()
    if program is None:
        raise NotBuilt("there is no C++ compiler")
    text = source.read_bytes()
    headers = b"".join(header.read_bytes() for header in sorted(source.parent.glob("*.h")))
    known = "\n".join([program, *FLAGS, torch.__version__, _processor()]).encode()
    folder = _folder()
    library = folder / f"{source.stem}_{hashlib.sha256(text + headers + known).hexdigest()[:16]}.so"
    if not library.exists():
        _compile(program, source, library)
    _expect_own(folder)
    return library


def _expect_own(folder: Path) -> None:
    """What lies there is run: nobody else may have put it there."""
    status = folder.stat()
    if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & 0o022):
        raise NotBuilt(f"{folder} belongs to somebody else, or others may write to it")


def _compile(program: str, source: Path, library: Path) -> None:
    """Into a file of its own first: several processes may be at it at once, and one may be killed."""
    home = Path(torch.__file__).parent
    try:
        library.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=library.parent) as folder:
            made = Path(folder) / library.name
            command = [program, *FLAGS, f"-I{home / 'include'}", str(source), "-o", str(made)]
            done = subprocess.run(
                [*command, f"-L{home / 'lib'}", "-ltorch_cpu", "-lc10"], capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise NotBuilt(f"{program} failed: {_reason(done)}")
            made.replace(library)
    except OSError as error:
        raise NotBuilt(str(error)) from error


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    """The first error that a compiler told, which warnings and the way to the line may stand before."""
    lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    return next((line for line in lines if "error" in line), lines[0])


def _folder() -> Path:
    try:
        return (Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kitformer" / "native").resolve()
    except RuntimeError as error:  # a user without a home
        raise NotBuilt(str(error)) from error


def _processor() -> str:
    """What code is compiled for: a home may be shared by machines that differ."""
    known = Path("/proc/cpuinfo")
    lines = known.read_text().splitlines() if known.exists() else []
    flags = next((line for line in lines if line.startswith(("flags", "Features"))), "")  # the latter on ARM
    return f"{platform.machine()} {flags}"
