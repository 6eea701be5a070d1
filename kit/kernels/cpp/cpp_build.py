"""Compiles a C++ file into a library of torch operations, cached per machine (cf. torch.utils.cpp_extension)."""

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
"""On ARM, the flag for the native processor is another one."""
FLAGS: tuple[str, ...] = (
    "-std=c++20",
    "-O3",
    "-mcpu=native" if ARM else "-march=native",
    "-fno-math-errno",
    "-fPIC",
    "-shared",
)
if sys.platform == "darwin":
    FLAGS += ("-undefined", "dynamic_lookup")  # Python's symbols are resolved when the library is loaded


class BuildError(Exception):
    """A library could not be compiled, and why."""


def compiler() -> str | None:
    """Returns the path of the C++ compiler: $CXX, g++ or clang++; None if there is none."""
    wanted = [os.environ["CXX"]] if os.environ.get("CXX") else ["g++", "clang++"]
    return next((found for name in wanted if (found := shutil.which(name))), None)


def build(source: Path) -> Path:
    """Returns the library compiled from this file; the first call on a machine takes a few seconds to compile it."""
    program = compiler()
    if program is None:
        raise BuildError("there is no C++ compiler")
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
    """Refuses a folder that other users can write to: libraries in it are executed."""
    status = folder.stat()
    if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & 0o022):
        raise BuildError(f"{folder} belongs to somebody else, or others may write to it")


def _compile(program: str, source: Path, library: Path) -> None:
    """Compiles to a temporary file and renames it: several processes may compile at once, and one may be killed."""
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
                raise BuildError(f"{program} failed: {_reason(done)}")
            made.replace(library)
    except OSError as error:
        raise BuildError(str(error)) from error


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    """The first error in a compiler's output, after warnings and include paths."""
    lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    return next((line for line in lines if "error" in line), lines[0])


def _folder() -> Path:
    try:
        return (Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kitformer" / "native").resolve()
    except RuntimeError as error:  # the user has no home directory
        raise BuildError(str(error)) from error


def _processor() -> str:
    """The processor's features: machines that differ may share a home directory."""
    known = Path("/proc/cpuinfo")
    lines = known.read_text().splitlines() if known.exists() else []
    flags = next((line for line in lines if line.startswith(("flags", "Features"))), "")  # the latter on ARM
    return f"{platform.machine()} {flags}"
