"""Time and memory of attentions against the length of a text, forward and backward, and how fast they grow.

    python benchmarks/length.py                          lengths 1k to 16k, about two minutes on two quiet cores
    python benchmarks/length.py --lengths 256 512 1024 --rounds 2

Times are medians of rounds in which all attentions take turns, so that a busy machine is unfair to none. Memory is the
most that a fresh process held above what it held before, as Linux counts it. Growth is the slope of a straight line
through the logarithms. Ends with 1 where a bar is missed: attentions declared linear grow with an exponent of at most
1.15 in time and in memory, and the window is at least 5 times as fast as softmax at 8k.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from kit import Attention, AttentionContext, BatchLayout, BuildContext, Dims, Kit, Mask
from kit.model.builder import ModelBuilder

WIDTH = 256
STEEPEST = 1.15
FASTER, FASTER_AT = 5.0, 8192
# A text is written under a causal mask; what only reads has none.
CAUSAL = {"softmax": True, "softmax, both ways": False, "window": True, "global_window": False}
CAUSAL |= {"linear": True, "performer": True}


class Bench:
    """The attentions, each with the mask it is measured under."""

    def __init__(self, names: Sequence[str], threads: int) -> None:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(True)
        torch.manual_seed(0)
        registry = Kit().registry
        build_context = BuildContext(ModelBuilder(registry), stack="decoder", role="attention")

        def build(kind: str, name: str) -> Any:
            options = registry.find(kind, name).component.options_type.model_validate({"use": name})
            return build_context.build(options, Dims(WIDTH))

        self.parts: dict[str, Attention] = {name: build("attention", name.split(",")[0]) for name in names}
        self.mask: Mask = build("mask", "causal")

    def run(self, name: str, length: int) -> float:
        """Seconds for one pass forward and backward."""
        x = torch.randn(1, length, WIDTH, requires_grad=True)
        layout = BatchLayout((1, length), x.device)
        begin = time.perf_counter()
        out = self.parts[name](x, None, AttentionContext(layout, layout, self.mask if CAUSAL[name] else None))
        out.backward(torch.ones_like(out))
        return time.perf_counter() - begin


def slope(lengths: Sequence[int], values: Sequence[float]) -> float:
    """The exponent of growth: least squares on logarithms."""
    xs, ys = [math.log(length) for length in lengths], [math.log(value) for value in values]
    return statistics.linear_regression(xs, ys).slope


def measure_memory(name: str, lengths: Sequence[int], threads: int) -> list[float]:
    """Megabytes at each length, from a process of its own; freed memory goes back at once there."""
    command = [sys.executable, __file__, "--only", name, "--threads", str(threads), "--lengths", *map(str, lengths)]
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    answer = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    megabytes: list[float] = json.loads(answer.stdout.splitlines()[-1])
    return megabytes


def hold(name: str, lengths: Sequence[int], threads: int) -> list[float]:
    """The most memory each length takes, in megabytes."""
    bench = Bench([name], threads)
    held = []
    for length in lengths:
        bench.run(name, min(length, 1024))
        with open("/proc/self/clear_refs", "w") as forget:
            forget.write("5")  # the highest mark so far is forgotten
        base = _held("VmRSS")
        bench.run(name, length)
        held.append(_held("VmHWM") - base)
    return held


def _held(field: str) -> float:
    with open("/proc/self/status") as status:
        (line,) = (line for line in status if line.startswith(field))
    return int(line.split()[1]) / 1024


def measure_time(bench: Bench, lengths: Sequence[int], rounds: int) -> dict[str, list[float]]:
    """Median seconds at each length; a round visits every length and every attention once."""
    runs: dict[tuple[str, int], list[float]] = {(name, length): [] for name in bench.parts for length in lengths}
    for name, length in runs:
        bench.run(name, min(length, 2048))  # warms up
    for _ in range(rounds):
        for (name, length), seen in runs.items():
            seen.append(bench.run(name, length))
    return {name: [statistics.median(runs[name, length]) for length in lengths] for name in bench.parts}


def show(title: str, lengths: Sequence[int], rows: dict[str, list[float]], digits: int) -> None:
    """A table with growth in its last column."""
    table = Table(title=title)
    table.add_column("attention")
    for length in lengths:
        table.add_column(f"{length:,}", justify="right")
    table.add_column("growth", justify="right")
    for name, values in rows.items():
        ways = "" if CAUSAL[name] or "," in name else " (both ways)"
        table.add_row(name + ways, *(f"{value:,.{digits}f}" for value in values), f"{slope(lengths, values):.2f}")
    Console().print(table)


def main() -> int:
    """Measure, print, and say whether the bars are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=[1024, 2048, 4096, 8192, 16384])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", choices=CAUSAL, help="print the memory of one attention, for this script itself")
    given = parser.parse_args()
    lengths = sorted(given.lengths)
    if given.only:
        print(json.dumps(hold(given.only, lengths, given.threads)))
        return 0
    bench = Bench(list(CAUSAL), given.threads)
    seconds = measure_time(bench, lengths, given.rounds)
    megabytes = {name: measure_memory(name, lengths, given.threads) for name in CAUSAL}
    show("milliseconds, forward and backward", lengths, {n: [1e3 * t for t in ts] for n, ts in seconds.items()}, 1)
    show("megabytes at the most", lengths, megabytes, 1)
    missed = []
    for name, part in bench.parts.items():
        if type(part).capabilities.cost == "linear":
            for what, rows in (("time", seconds), ("memory", megabytes)):
                growth = slope(lengths, rows[name])
                if growth > STEEPEST:
                    missed.append(f"{name}: {what} grows with exponent {growth:.2f}, wanted at most {STEEPEST}")
    if FASTER_AT in lengths:
        place = lengths.index(FASTER_AT)
        for name in ("softmax", "softmax, both ways"):
            ratio = seconds[name][place] / seconds["window"][place]
            print(f"at {FASTER_AT:,} tokens the window takes 1/{ratio:.1f} of the time of {name}")
        if seconds["softmax"][place] / seconds["window"][place] < FASTER:
            missed.append(f"window is less than {FASTER} times as fast as softmax at {FASTER_AT:,} tokens")
    print("\n".join(missed) or "all bars met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
