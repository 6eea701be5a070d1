"""Counts the source files that one forward pass of a packed encoder-decoder goes through.

`python tests/traces/files_of_a_forward_pass.py` prints those of the kit and its plugins: what a reader has to open in
order to follow a batch from token ids to logits. Imports do not count: the first pass is not traced.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from kit import Kit, TokenBatch
from kit.kernels.linear import use_fast_linear

ROOT = Path(__file__).parents[2]
FOLDERS = ("kit", "plugins")
STACK = {
    "depth": 2,
    "attention": {"use": "softmax", "heads": 4},
    "feedforward": {"use": "relu", "ffn_multiplier": 4},
    "residual": "pre",
}
RECIPE = {
    "name": "translator",
    "model": {
        "family": "encoder-decoder",
        "width": 64,
        "vocabulary": 100,
        "position": {"use": "sinusoidal"},
        "norm": "layer",
        "encoder": STACK,
        "decoder": {**STACK, "cross_attention": {"use": "softmax", "heads": 4}, "masks": ["causal"]},
    },
}
"""The translator of the README, small."""


def files_run(function: Callable[[], Any]) -> list[str]:
    """Returns the paths below the project's root of the files whose functions a call runs, sorted."""
    code_files: set[str] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            code_files.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
    return sorted(_below_root(code_files))


def forward_pass() -> Callable[[], Any]:
    """Returns a training forward pass of the packed translator, which has been run once."""
    kit = Kit()
    model = kit.build(kit.recipe(RECIPE))
    use_fast_linear(model)
    source = TokenBatch.from_lists([[5, 6, 7, 8, 9], [10, 11, 12]])
    target = TokenBatch.from_lists([[1, 5, 6], [1, 7, 8, 9]])
    model.train()
    model(source, target, packed=True)
    return lambda: model(source, target, packed=True)


def main() -> None:
    """Prints the files and their number."""
    torch.manual_seed(0)
    files = files_run(forward_pass())
    print(*files, f"{len(files)} files", sep="\n")


def _below_root(files: set[str]) -> Iterator[str]:
    for file in files:
        path = Path(file)
        if path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in FOLDERS:
            yield str(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
