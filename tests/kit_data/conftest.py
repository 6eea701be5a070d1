"""A cache of their own for the tests, files made on the spot, and where the real data lies."""

from pathlib import Path

import pytest

from kit import Data
from kit_data import kit_components

SHARED = Path(__file__).parents[3] / "shared" / "data"
PARTS = {part.name(): part for part in kit_components()}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def make(tmp_path):
    """Data by name, with its files in the test's folder."""

    def made(name: str, folder: Path = tmp_path, **options: object) -> Data:
        return PARTS[name](PARTS[name].options_type(**options), folder)

    return made


@pytest.fixture
def file(tmp_path):
    """A file in the test's folder."""

    def write(name: str, content: str | bytes) -> str:
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return name

    return write


@pytest.fixture
def shared() -> Path:
    if not SHARED.is_dir():
        pytest.skip(f"REAL DATA MISSING: {SHARED} is not there, so this is not tested")
    return SHARED
