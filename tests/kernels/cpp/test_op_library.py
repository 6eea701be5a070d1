"""Where C++ cannot be compiled or kept, whatever the reason, one line says why, and slower code computes the same."""

from __future__ import annotations

import errno
import os
import select
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kit import KitError
from kit.kernels.cpp import cpp_build, op_library
from kit.kernels.cpp.op_library import NotNativeWarning, OpLibrary


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for a home and a compiler that must not be used; nothing was reported yet."""
    monkeypatch.delenv("KIT_NATIVE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CXX", program(tmp_path, "echo 'no.cpp:1: error: used' >&2; exit 1"))
    monkeypatch.setattr(op_library, "_warned", set())
    monkeypatch.setattr(cpp_build, "_stopped", set())
    return tmp_path


def program(folder: Path, text: str) -> str:
    """A shell script in place of a compiler."""
    path = folder / "c++"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def line() -> str:
    """The one line that loading two libraries prints, of which none is there."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        libraries = [OpLibrary(name, {f"never_defined_{name}": None}) for name in ("decode", "dropout")]
        assert not any(library.load() or library.loaded or library.file for library in libraries)
    (warning,) = told
    assert warning.category is NotNativeWarning
    (text,) = str(warning.message).splitlines()
    return text.removeprefix("slower than it could be: ")


POPEN = subprocess.Popen
INSTALL = "install one, name another in CXX, or set KIT_NATIVE=0"
ELSEWHERE = "name a folder of your own in XDG_CACHE_HOME"
FILE, FOLDER = "{folder}/c++", "{folder}/.cache/kitformer/native"


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({"CXX": "no-such"}, f"there is no C++ compiler (CXX=no-such); {INSTALL}"),
        ({"CXX": "no-such -O2"}, f"there is no C++ compiler (CXX=no-such -O2); {INSTALL}"),
        ({"CXX": " "}, f"there is no C++ compiler (CXX= ); {INSTALL}"),
        ({"CXX": "g++ 'open"}, f"there is no C++ compiler (CXX=g++ 'open); {INSTALL}"),
        ({"CXX": None, "PATH": ""}, f"there is no C++ compiler (g++ or clang++); {INSTALL}"),
        ({"CXX": None, "PATH": "{folder}"}, f"there is no C++ compiler (g++ or clang++); {INSTALL}"),
        ({"HOME": ""}, f"no home folder for compiled libraries: HOME=, XDG_CACHE_HOME=None; {ELSEWHERE}"),
        (
            {"HOME": "/no/such"},
            f"no home folder for compiled libraries: HOME=/no/such, XDG_CACHE_HOME=None; {ELSEWHERE}",
        ),
        (
            {"XDG_CACHE_HOME": "here"},
            f"no home folder for compiled libraries: HOME={{folder}}, XDG_CACHE_HOME=here; {ELSEWHERE}",
        ),
        (
            {"XDG_CACHE_HOME": FILE},
            f"{FILE}/kitformer/native cannot be used: Not a directory; {ELSEWHERE}",
        ),
    ],
)
def test_an_environment_without_compiler_or_home_is_told_in_one_line(
    folder: Path, environment: dict[str, str | None], wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.delenv(name) if value is None else monkeypatch.setenv(name, value.format(folder=folder))
    assert line() == wanted.format(folder=folder)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("echo 'a.cpp:1: warning: x'; echo 'a.cpp:2: error: y' >&2; exit 1", f"{FILE} failed: a.cpp:2: error: y"),
        (r"printf 'error: \303(\r\nmore\n'; exit 1", f"{FILE} failed: error: \ufffd("),
        ("exit 3", f"{FILE} failed: exit code 3"),
        ("kill -9 $$", f"{FILE} failed: exit code -9"),
        ("exit 0", f"{FILE} failed: it wrote no library"),
        ("while read line; do :; done; exit 4", f"{FILE} failed: exit code 4"),
    ],
    ids=["error", "not UTF-8", "no word", "killed", "writes nothing", "reads standard input"],
)
def test_a_compiler_that_fails_is_told_in_one_line(folder: Path, text: str, wanted: str) -> None:
    program(folder, text)
    assert line() == wanted.format(folder=folder)
    assert list((folder / ".cache" / "kitformer" / "native").iterdir()) == [], "nothing is left"


def test_a_compiler_of_another_machine_is_told_in_one_line(folder: Path) -> None:
    (folder / "c++").write_bytes(b"\x7fELF" + bytes(100))
    assert line() == f"{folder}/c++ cannot be started: Exec format error"


def test_a_line_of_a_compiler_has_an_end(folder: Path) -> None:
    program(folder, "i=0; while [ $i -lt 200 ]; do printf 'error: much to say '; i=$((i+1)); done; exit 1")
    assert len(line()) < 500 + len(str(folder))


def refuse(code: int) -> Callable[..., None]:
    def mkdir(path: Any, mode: int = 0o777, **options: Any) -> None:
        raise OSError(code, os.strerror(code), str(path))

    return mkdir


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.ENOSPC], ids=["read-only", "not allowed", "full"])
def test_a_home_that_cannot_be_written_is_told_in_one_line(
    folder: Path, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "mkdir", refuse(code))
    assert line() == f"{FOLDER} cannot be used: {os.strerror(code)}; {ELSEWHERE}".format(folder=folder)


def test_a_home_that_is_unknown_is_told_in_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("HOME")
    monkeypatch.setattr(Path, "home", home)
    assert line() == f"no home folder for compiled libraries: HOME=None, XDG_CACHE_HOME=None; {ELSEWHERE}"


@pytest.fixture
def hanging(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, list[int]]:
    """A pipe that a hanging compiler and what it started hold open, and the compilers started."""
    os.mkfifo(folder / "held")
    held = os.open(folder / "held", os.O_RDONLY | os.O_NONBLOCK)
    program(folder, f"exec 9> {folder / 'held'}; echo ready >&9; sleep 600 & wait")
    started: list[int] = []

    def spy(*given: Any, **options: Any) -> subprocess.Popen[bytes]:
        process = POPEN(*given, **options)
        started.append(process.pid)
        assert select.select([held], [], [], 60)[0], "the compiler runs"
        return process

    monkeypatch.setattr(subprocess, "Popen", spy)
    return held, started


def assert_ended(held: int) -> None:
    """Nobody has the pipe open for writing any more: reading finds its end within a minute."""
    content = b""
    while select.select([held], [], [], 60)[0] and (read := os.read(held, 100)):
        content += read
    assert content == b"ready\n"
    assert os.read(held, 100) == b""
    os.close(held)


def test_a_compiler_that_hangs_is_stopped_once_with_what_it_started(
    folder: Path, hanging: tuple[int, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpp_build, "TIME_LIMIT", 0.1)
    assert line() == f"{folder}/c++ was stopped after 0.1 s; name another compiler in CXX, or set KIT_NATIVE=0"
    assert_ended(hanging[0])
    assert len(hanging[1]) == 1, "the second library does not wait for it again"
    assert list((folder / ".cache" / "kitformer" / "native").iterdir()) == []


def test_an_interrupt_ends_the_compiler_too(
    folder: Path, hanging: tuple[int, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = POPEN.wait

    def interrupted(process: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        if timeout is not None:
            raise KeyboardInterrupt
        return wait(process)

    monkeypatch.setattr(POPEN, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        OpLibrary("decode", {"never_defined_decode": None}).load()
    assert_ended(hanging[0])


def test_reasons_are_the_kit_s_errors() -> None:
    assert issubclass(cpp_build.BuildError, KitError)


def test_whoever_does_without_is_not_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIT_NATIVE", "0")
    monkeypatch.setenv("CXX", "no-such")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not OpLibrary("decode", {"never_defined_decode": None}).load()
        monkeypatch.delenv("KIT_NATIVE")
        assert not OpLibrary("decode", {"never_defined_decode": None}, needs="another processor").load()
