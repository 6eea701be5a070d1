"""A library is compiled once for each machine; where that cannot be, the model writes without it and says so once."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kit.kernels.cpp import cpp_build
from kit.kernels.cpp.cpp_build import BuildError, build, compiler

SMALL = 'extern "C" int seven() { return 7; }\n'
LOADED = """
import warnings
import torch
from kit.kernels.cpp import decode
from kit.kernels.cpp import op_library
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    print(decode.LIBRARY.load(), decode.LIBRARY.load())
print([str(each.message) for each in told if each.category is op_library.NotNativeWarning])
"""
ARRANGED = """
from torch import nn
from kit.kernels.decoding import PrepackedLinear
layer, x = nn.Linear(70, 100), torch.randn(5, 3, 70)
arranged = PrepackedLinear(layer.weight, layer.bias)
print(arranged.backend)
with torch.no_grad():
    print(float((arranged(x) - layer(x)).abs().max()) < 1e-5)
"""
THREADS = """
import threading
from kit.kernels.cpp import decode
from kit.kernels.cpp import op_library
found, ready = [], threading.Barrier(4)
def load():
    ready.wait()
    found.append(decode.LIBRARY.load())
threads = [threading.Thread(target=load) for _ in range(4)]
for each in threads: each.start()
for each in threads: each.join()
decode.LIBRARY._tried = False
print(found, decode.LIBRARY.load())
"""

WRITES = 'while [ "$1" != -o ]; do shift; done; '
"""The beginning of a stand-in for a compiler: afterwards $2 is the file that it has to write."""

needs_compiler = pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler here")


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that compiles quickly, and nothing compiled yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "small.cpp"
    path.write_text(SMALL)
    return path


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def compiles(source: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A quick stand-in for a compiler, which writes something else each time."""
    monkeypatch.setenv("CXX", script(source.with_name("compiles"), WRITES + 'echo $$ > "$2"'))
    return os.environ["CXX"]


def start(code: str, **settings: str) -> subprocess.Popen[str]:
    fresh = {name: value for name, value in os.environ.items() if name not in ("CXX", "KIT_NATIVE")}
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env=fresh | settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def lines(process: subprocess.Popen[str]) -> list[str]:
    out, error = process.communicate()
    assert process.returncode == 0, error
    return out.splitlines()


@needs_compiler
def test_a_file_is_compiled_once(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = build(source)
    assert made.exists() and made.suffix == ".so"
    assert list(made.parent.iterdir()) == [made], "nothing else is left"
    monkeypatch.setattr(subprocess, "Popen", lambda *given, **options: pytest.fail("compiled again"))
    assert build(source) == made


@needs_compiler
def test_another_text_processor_or_torch_has_a_library_of_its_own(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {build(source)}
    source.write_text(SMALL.replace("7", "8"))
    found.add(build(source))
    monkeypatch.setattr(cpp_build, "_processor", lambda: "another")
    found.add(build(source))
    monkeypatch.setattr(cpp_build.torch, "__version__", "another")
    found.add(build(source))
    assert len(found) == 4 and all(each.exists() for each in found)


@needs_compiler
def test_a_mistake_is_told_in_a_line(source: Path) -> None:
    source.write_text('#warning "first"\n' + SMALL.replace("7", "seven_"))
    with pytest.raises(BuildError, match=r"failed: .*small\.cpp:2:.*error: .*seven_") as caught:
        build(source)
    assert len(str(caught.value).splitlines()) == 1
    assert list((source.parent / "cache" / "kitformer" / "native").iterdir()) == [], "nothing is left"


def test_a_compiler_that_fails_without_a_word(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", script(source.with_name("fails"), "exit 3"))
    with pytest.raises(BuildError, match="fails failed: exit code 3"):
        build(source)


def test_no_compiler(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert compiler() is None
    with pytest.raises(BuildError, match="no C\\+\\+ compiler"):
        build(source)


@needs_compiler
def test_nowhere_to_keep_it(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(source))  # a file
    with pytest.raises(BuildError, match="Not a directory"):
        build(source)

    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(BuildError, match="home"):
        build(source)


def test_a_model_writes_without_it_and_is_told_once(tmp_path: Path) -> None:
    fails = script(tmp_path / "fails", "echo 'few.cpp:1: error: no' >&2; exit 1")
    loaded, told, library, same = lines(start(LOADED + ARRANGED, XDG_CACHE_HOME=str(tmp_path), CXX=fails))
    assert loaded == "False False" and same == "True" and library in ("mkl", "onednn", "None")
    assert told == f"['slower than it could be: {fails} failed: few.cpp:1: error: no']"


@needs_compiler
def test_a_library_that_cannot_be_read_is_done_without(tmp_path: Path) -> None:
    empty = script(tmp_path / "empty", WRITES + ': > "$2"')
    loaded, told, library, same = lines(start(LOADED + ARRANGED, XDG_CACHE_HOME=str(tmp_path), CXX=empty))
    assert loaded == "False False" and same == "True" and library != "native"
    folder = tmp_path / "kitformer" / "native"
    assert told == f"['slower than it could be: what was compiled into {folder} cannot be loaded: file too short']"
    assert list(folder.iterdir()) == [], "the next process does not trip over it"


def test_whoever_does_not_want_it_is_not_told(tmp_path: Path) -> None:
    loaded, told, library, same = lines(start(LOADED + ARRANGED, XDG_CACHE_HOME=str(tmp_path), KIT_NATIVE="0"))
    assert (loaded, told, same) == ("False False", "[]", "True") and library != "native"
    assert list(tmp_path.iterdir()) == []


@needs_compiler
def test_several_processes_and_threads_at_once(tmp_path: Path) -> None:
    started = [start(code, XDG_CACHE_HOME=str(tmp_path)) for code in (LOADED + ARRANGED, THREADS)]
    found = [lines(each) for each in started]
    assert found == [["True True", "[]", "native", "True"], ["[True, True, True, True] True"]]
    assert len(list((tmp_path / "kitformer" / "native").iterdir())) == 1


@needs_compiler
def test_half_a_library_is_made_anew(tmp_path: Path) -> None:
    assert lines(start(LOADED, XDG_CACHE_HOME=str(tmp_path)))[0] == "True True"
    (library,) = (tmp_path / "kitformer" / "native").iterdir()
    whole = library.read_bytes()
    library.write_bytes(whole[: len(whole) // 2])  # loading it would end the process by SIGBUS
    assert lines(start(LOADED, XDG_CACHE_HOME=str(tmp_path))) == ["True True", "[]"]
    assert library.read_bytes() == whole


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda whole: b"",
    "first kilobyte": lambda whole: whole[:1000],
    "half": lambda whole: whole[: len(whole) // 2],
    "without the last byte": lambda whole: whole[:-1],
    "with a byte more": lambda whole: whole + b"x",
    "zeroed middle": lambda whole: whole[:2000] + bytes(len(whole) - 4000) + whole[-2000:],
    "another bit": lambda whole: whole[:3000] + bytes([whole[3000] ^ 1]) + whole[3001:],
}


@needs_compiler
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_library_is_compiled_again(source: Path, damage: Callable[[bytes], bytes]) -> None:
    library = build(source)
    whole = library.read_bytes()
    library.write_bytes(damage(whole))
    again = build(source)
    assert again.read_bytes() == whole, "not loaded here: a damaged one would end the process"
    assert list(again.parent.iterdir()) == [again], "the damaged one is gone"


def test_what_another_compiler_run_wrote_is_neither_mixed_up_nor_lost(source: Path, compiles: str) -> None:
    """Runs of this compiler differ, as some do in a date: content and digest of two runs must not be mixed."""
    with ThreadPoolExecutor(6) as pool:
        made = [each.result() for each in [pool.submit(build, source) for _ in range(18)]]
    for library in made:
        assert hashlib.sha256(library.read_bytes()).hexdigest() in library.name
    assert build(source) in made


def test_only_the_owner_may_use_what_is_compiled(source: Path, compiles: str) -> None:
    before = os.umask(0)
    try:
        library = build(source)
    finally:
        os.umask(before)
    assert [stat.S_IMODE(each.stat().st_mode) for each in (library, library.parent)] == [0o700, 0o700]


def test_a_library_that_others_may_write_to_is_not_trusted(source: Path, compiles: str) -> None:
    library = build(source)
    library.chmod(0o722)
    with pytest.raises(BuildError, match=f"^{library} belongs to somebody else, or others may write to it; remove it"):
        build(source)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_a_library_of_another_owner_is_not_trusted(source: Path, compiles: str) -> None:
    library = build(source)
    os.chown(library, 12345, -1)
    with pytest.raises(BuildError, match=f"^{library} belongs to somebody else"):
        build(source)


def test_a_folder_of_another_owner_is_not_trusted(source: Path, compiles: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = build(source).parent
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    with pytest.raises(BuildError, match=f"^{folder} belongs to somebody else"):
        build(source)


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_only_a_regular_file_is_read(source: Path, compiles: str, kind: str) -> None:
    library = build(source)
    if kind == "link":
        library.rename(library.with_name("elsewhere"))
        library.symlink_to("elsewhere")
    else:
        library.unlink()
        os.mkfifo(library)  # reading it would wait for ever
    with pytest.raises(BuildError, match=f"^{library} is not a regular file; remove it$"):
        build(source)


def test_a_library_is_used_where_nothing_can_be_written(
    source: Path, compiles: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = build(source)

    def read_only(path: Path, mode: int = 0o777) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(os, "mkdir", read_only)
    assert build(source) == library


@needs_compiler
@pytest.mark.parametrize(
    ("named", "seven"),
    [
        ("{program}", 7),
        ("{program} -DNUMBER=8 -DUNUSED=1", 8),
        ("{spaced}", 7),
        ("'{spaced}' -DNUMBER=9", 9),
    ],
    ids=["path", "options", "path with a space", "both"],
)
def test_cxx_has_options_and_spaces(source: Path, named: str, seven: int, monkeypatch: pytest.MonkeyPatch) -> None:
    source.write_text("#ifndef NUMBER\n#define NUMBER 7\n#endif\n" + SMALL.replace("7", "NUMBER"))
    monkeypatch.delenv("CXX", raising=False)
    (program,) = compiler() or []
    spaced = script(source.with_name("my compiler"), f'exec {program} "$@"')
    monkeypatch.setenv("CXX", named.format(program=program, spaced=spaced))
    assert ctypes.CDLL(str(build(source))).seven() == seven


@needs_compiler
@pytest.mark.parametrize("open_to_others", [False, True])
def test_a_folder_that_others_may_write_to_is_not_trusted(tmp_path: Path, open_to_others: bool) -> None:
    folder = tmp_path / "kitformer" / "native"
    folder.mkdir(parents=True)
    folder.chmod(0o777 if open_to_others else 0o755)
    loaded, told = lines(start(LOADED, XDG_CACHE_HOME=str(tmp_path)))
    assert loaded == ("False False" if open_to_others else "True True")
    assert ("others may write to it" in told) is open_to_others
