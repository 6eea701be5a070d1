"""Batches of ever new sizes do not fill the memory with what oneDNN has made for each."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest
import torch

PROGRAM = """
import ctypes, sys
import torch
from kit.kernels import linear as linear_backend

class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in
                "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]

def used():
    library = ctypes.CDLL(None)
    library.mallinfo2.restype = Info
    return library.mallinfo2().uordblks

def train(sizes):
    for rows in sizes:
        layer(torch.ones(rows, 64)).sum().backward()

linear_backend.prefers_onednn = lambda: True
if sys.argv[1] == "all":
    linear_backend.limit_onednn_primitive_cache = lambda: None
torch.set_num_threads(1)
layer = torch.nn.Sequential(torch.nn.Linear(64, 256))
linear_backend.use_fast_linear(layer)
train(range(100, 170))
before = used()
train(range(170, 300))
print(used() - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="the C library does not say what is in use")
@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch has no oneDNN")
def test_new_sizes_take_no_more_memory() -> None:
    # Another test may have trained in this process, which is told once and for all. Products of our own need no oneDNN.
    fresh = {name: value for name, value in os.environ.items() if not name.endswith("CACHE_CAPACITY")}

    def grown(remembered: str) -> int:
        command = [sys.executable, "-c", PROGRAM, remembered]
        environment = {**fresh, "KIT_NATIVE": "0"}
        return int(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)

    assert grown("few") < 2_000_000
    assert grown("all") > 10_000_000, "what is remembered takes memory, or this test could not fail"
