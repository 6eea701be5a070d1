"""Compiles a C++ file into a library of torch operations, cached per machine (cf. torch.utils.cpp_extension)."""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import torch

from kit.errors import KitError

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
ELSEWHERE = "name a folder of your own in XDG_CACHE_HOME"
TIME_LIMIT = 180.0
"""Seconds that the compiler gets for a file; the longest takes five on one core."""
_stopped: set[str] = set()
"""Compilers that took longer: this process does not wait for them again."""


class BuildError(KitError):
    """A library could not be compiled, kept or trusted, and why."""


def compiler() -> list[str] | None:
    """Returns the command of the C++ compiler: $CXX, which may have options, g++ or clang++; None if there is none."""
    named = os.environ.get("CXX")
    commands = [[named]] if named else [["g++"], ["clang++"]]
    with suppress(ValueError):  # a quotation mark that is not closed
        commands += [shlex.split(named)] if named else []
    found = ([path, *command[1:]] for command in commands if command and (path := shutil.which(command[0])))
    return next(found, None)


def build(source: Path) -> Path:
    """Returns the library compiled from this file, checked; the first call on a machine takes seconds to compile it."""
    command = compiler()
    if command is None:
        named = f"CXX={os.environ['CXX']}" if os.environ.get("CXX") else "g++ or clang++"
        raise BuildError(f"there is no C++ compiler ({named}); install one, name another in CXX, or set KIT_NATIVE=0")
    texts = [file.read_bytes() for file in (source, *sorted(source.parent.glob("*.h")))]
    known = "\n".join([*command, *FLAGS, torch.__version__, _processor()])
    name = f"{source.stem}_{hashlib.sha256(b''.join(texts) + os.fsencode(known)).hexdigest()[:16]}"
    folder = _folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _expect_own(folder)
        found = sorted(folder.glob(f"{name}_*.so"))
        intact = next(filter(_is_intact, found), None)
        if intact is None:
            intact = _compile(command, source, folder, name)
            for damaged in set(found) - {intact}:
                damaged.unlink(missing_ok=True)
    except OSError as error:
        raise BuildError(f"{folder} cannot be used: {error.strerror or error}; {ELSEWHERE}") from error
    return intact


def _expect_own(path: Path) -> None:
    """Refuses a folder or library that others can write to, or that is a link or device: libraries are executed."""
    status = path.lstat()
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise BuildError(f"{path} is not a regular file; remove it")
    if hasattr(os, "geteuid") and (status.st_uid != os.geteuid() or status.st_mode & 0o022):
        raise BuildError(f"{path} belongs to somebody else, or others may write to it; remove it, or {ELSEWHERE}")


def _is_intact(library: Path) -> bool:
    """Whether a library is as it was compiled: its name has the SHA-256 of its content, so both are there or neither.

    Loading a damaged one ends the process: pages that a truncated file lacks are SIGBUS, zeroed ones SIGSEGV.
    """
    try:
        _expect_own(library)
        return library.stem.endswith(hashlib.sha256(library.read_bytes()).hexdigest())
    except FileNotFoundError:  # another process has removed it
        return False


def _compile(command: list[str], source: Path, folder: Path, name: str) -> Path:
    """Compiles to a temporary file and renames it: several processes may compile at once, and one may be killed."""
    home = Path(torch.__file__).parent
    with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as temporary:
        made = Path(temporary) / f"{name}.so"
        inputs = [f"-I{home / 'include'}", str(source), "-o", str(made), f"-L{home / 'lib'}", "-ltorch_cpu", "-lc10"]
        _run(command, [*FLAGS, *inputs], Path(temporary) / "messages")
        if not made.is_file():
            raise BuildError(f"{' '.join(command)} failed: it wrote no library")
        made.chmod(0o700)  # whatever the umask
        return made.replace(folder / f"{name}_{hashlib.sha256(made.read_bytes()).hexdigest()}.so")


def _run(command: list[str], arguments: list[str], messages: Path) -> None:
    """Runs the compiler for at most `TIME_LIMIT`; the processes that it starts end with it."""
    program = " ".join(command)
    late = f"{program} was stopped after {TIME_LIMIT:g} s; name another compiler in CXX, or set KIT_NATIVE=0"
    if program in _stopped:
        raise BuildError(late)
    with messages.open("w+b") as file:
        try:
            process = subprocess.Popen(
                [*command, *arguments], stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
            )
        except OSError as error:
            raise BuildError(f"{program} cannot be started: {error.strerror or error}") from error
        try:
            code = process.wait(TIME_LIMIT)
        except BaseException as error:  # also an interrupt, which a session of its own does not get
            with suppress(ProcessLookupError):  # it has just ended
                os.killpg(process.pid, signal.SIGKILL) if hasattr(os, "killpg") else process.kill()
            process.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                _stopped.add(program)
                raise BuildError(late) from error
            raise
        file.seek(0)
        said = file.read(2**16).decode(errors="replace").strip().splitlines() or [f"exit code {code}"]
    if code:
        reason = next((line for line in said if "error" in line), said[0])  # after warnings and include paths
        raise BuildError(f"{program} failed: {reason[:400]}")


def _folder() -> Path:
    """The user's folder of compiled libraries."""
    home, cache = os.environ.get("HOME"), os.environ.get("XDG_CACHE_HOME")
    with suppress(RuntimeError, OSError):  # the user is unknown, links go round, or nothing may be looked at
        if not cache and home != "" and Path.home().is_dir():
            cache = str(Path.home() / ".cache")
        if cache and Path(cache).is_absolute():
            return (Path(cache) / "kitformer" / "native").resolve()
    raise BuildError(f"no home folder for compiled libraries: HOME={home}, XDG_CACHE_HOME={cache}; {ELSEWHERE}")


def _processor() -> str:
    """The processor's features and the C library: machines that differ may share a home directory."""
    known = Path("/proc/cpuinfo")
    lines = known.read_text().splitlines() if known.exists() else []
    flags = next((line for line in lines if line.startswith(("flags", "Features"))), "")  # the latter on ARM
    return f"{platform.machine()} {platform.libc_ver()} {flags}"
