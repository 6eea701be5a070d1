"""What tests of our own C++ share: where it can be built it has to be there, elsewhere they are skipped."""

from __future__ import annotations

import os

import pytest

from kit.native import few, likeliest, stretch
from kit.native.building import compiler


@pytest.fixture(scope="session")
def native() -> None:
    """The operations are there."""
    if os.environ.get("KIT_NATIVE") == "0" or compiler() is None:
        pytest.skip("there is no C++ compiler here, or it is not wanted")
    assert few.LIBRARY.load() and likeliest.LIBRARY.load() and stretch.LIBRARY.load()
