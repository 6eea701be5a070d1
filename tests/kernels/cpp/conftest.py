"""What tests of our own C++ share: where it can be built it has to be there, elsewhere they are skipped."""

from __future__ import annotations

import os

import pytest

from kit.kernels.cpp import decode
from kit.kernels.cpp.cpp_build import compiler
from kit.kernels.decoding import BEAM_TOPK, GREEDY_LOOP


@pytest.fixture(scope="session")
def native() -> None:
    """The operations are there."""
    if os.environ.get("KIT_NATIVE") == "0" or compiler() is None:
        pytest.skip("there is no C++ compiler here, or it is not wanted")
    assert decode.LIBRARY.load() and BEAM_TOPK.load() and GREEDY_LOOP.load()
