"""The kit's C++, compiled once for all processes of a test session, whatever cache folder a test has of its own."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER_VARIABLE = "KIT_TEST_COMPILED"
"""Names the folder of the compiled libraries, for this process and those that it starts."""


def compile_kernels(lock: Path) -> None:
    """Compile what is not compiled yet, while other processes of the session wait for it."""
    import fcntl
    from concurrent.futures import ThreadPoolExecutor

    import kit
    from kit.kernels.cpp.cpp_build import BuildError, build, compiler

    if os.environ.get("KIT_NATIVE") == "0" or compiler() is None:
        return
    sources = sorted(Path(kit.__file__).parent.glob("kernels/**/*.cpp"))
    assert sources
    with lock.open("w") as file, ThreadPoolExecutor(2) as pool:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            libraries = list(pool.map(build, sources))
        except BuildError:  # the tests of building say why
            return
    os.environ[FOLDER_VARIABLE] = str(libraries[0].parent)


def cache_with_kernels(cache: Path) -> Path:
    """A folder for XDG_CACHE_HOME that is empty but for the session's compiled libraries."""
    compiled = os.environ.get(FOLDER_VARIABLE)
    if compiled is not None:
        link = cache / "kitformer" / Path(compiled).name
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.exists():
            link.symlink_to(compiled, target_is_directory=True)
    return cache
