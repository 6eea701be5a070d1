"""Training speed against what people would pick instead: torch.nn.Transformer, Hugging Face Marian and x-transformers.

The same Multi30k batches for all (English to German, one BPE vocabulary of 8,000), the same loss, the same fused AdamW,
dropout 0.1 after every sublayer, two CPU threads; medians of tokens a second. Each has a process of its own, and they
take turns. Processes are as they come: `kit train` flushes denormals and keeps memory between steps, the others do
neither; with `--alike` they are given both.

Kinds of batch: 64 sentences as they come; 64 sorted by the source's length in pools of 2 batches, where 63 % of the
places are real tokens, and in pools of 100, as many loaders do; and as the kit makes them, bucketed by both lengths.
The bar: 1.5 times the best of the others.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from contestants.process import Worker
from contestants.training import CONTESTANTS, LONGEST, Batch
from rich.console import Console
from rich.table import Table
from torch import nn

from kit import Batch as LoadedBatch
from kit import Kit
from kit.data.rows import Seq2SeqRows
from kit.data.samplers import BatchBudget, BatchShard, BucketSampler, shard_of
from kit.data.token_store import encode_split
from kit.data.tokenizers import Tokenizers
from kit.kernels.allocator import tune_malloc

SIZES = {"width 512, 6+6": (512, 6, 8), "width 256, 3+3": (256, 3, 4)}
BAR = 1.5
PAUSE = 0.05
"""Seconds before each step, in which the threads of the one before it stop spinning."""


def read_batches(folder: Path, count: int) -> tuple[dict[str, list[Batch]], int]:
    """Batches of all kinds from real data, and the size of the vocabulary."""
    kit = Kit()
    files = {"source": str(folder / "train.en"), "target": str(folder / "train.de")}
    data_options = kit.registry.find("data", "parallel_text").component
    tokenizer_part = kit.registry.find("tokenizer", "bpe").component
    data = data_options(data_options.options_type.model_validate({"use": "parallel_text", "train": files}))
    pieces = tokenizer_part.options_type.model_validate({"use": "bpe", "vocab_size": 8000})
    tokenizers = Tokenizers.one(tokenizer_part(pieces))
    tokenizers.train(data)
    rows = Seq2SeqRows(encode_split(data, "train", tokenizers))
    sampler = BucketSampler(rows.lengths, rows.predicted, BatchBudget(3000, seed=0, max_length=LONGEST))
    bucketed = [rows[shard_of(sampler, step)] for step in range(count)]
    order = torch.randperm(len(rows.lengths), generator=torch.Generator().manual_seed(0)).tolist()
    sizes = rows.encoded.source.lengths

    def by_length(rows_of_pool: list[int]) -> list[int]:
        return sorted(rows_of_pool, key=lambda row: int(sizes[row]))

    pairs = [row for start in range(0, 64 * count, 128) for row in by_length(order[start : start + 128])]
    pool = by_length(order[:6400])
    first = torch.randperm(100, generator=torch.Generator().manual_seed(0)).tolist()[:count]
    batches = {
        "as they come": [_taken(rows, order[64 * n : 64 * n + 64]) for n in range(count)],
        "sorted in pairs": [_taken(rows, pairs[64 * n : 64 * n + 64]) for n in range(count)],
        "sorted in pools": [_taken(rows, pool[64 * n : 64 * n + 64]) for n in first],
        "bucketed": bucketed,
    }
    return {kind: [Batch(b.source, b.target) for b in made] for kind, made in batches.items()}, tokenizers.source.size


def _taken(rows: Seq2SeqRows, chosen: list[int]) -> LoadedBatch:
    return rows[BatchShard(0, tuple(chosen), 1, len(chosen), 0)]


def matrix_rate() -> float:
    """Floating-point operations a second of this machine's own matrix multiplication."""
    a, b = torch.randn(1024, 2048), torch.randn(2048, 1024)
    seconds = []
    for _ in range(10):
        start = time.perf_counter()
        a @ b
        seconds.append(time.perf_counter() - start)
    return 2 * 1024 * 2048 * 1024 / statistics.median(seconds)


def flops(width: int, depth: int, vocabulary: int, batch: Batch) -> float:
    """Forward and backward of the matrices on real tokens, attention's own products left out (they are under 3 %)."""
    source, target = int(batch.source_valid.sum()), int(batch.read_valid.sum())
    encoder = depth * 12 * width**2 * source
    decoder = depth * ((4 + 2 + 8) * width**2 * target + 2 * width**2 * source)
    return 6 * (encoder + decoder + width * vocabulary * target)


def serve(label: str, size: tuple[int, int, int], vocabulary: int, settled: bool, tasks: Connection) -> None:
    """One contestant in its process: takes a batch, trains on it, answers with seconds."""
    torch.set_num_threads(2)
    if settled:
        torch.set_flush_denormal(True)
        tune_malloc()
    torch.manual_seed(0)
    model, loss = CONTESTANTS[label](*size, vocabulary)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    while (batch := tasks.recv()) is not None:
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss(batch).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        tasks.send(time.perf_counter() - start)


def compare(name: str, kind: str, batches: list[Batch], vocabulary: int, alike: bool, out: Console) -> float:
    """Train all contestants on the same batches in turn; print and return the ratio to the best of the others."""
    width, depth, _ = SIZES[name]
    with ExitStack() as stack:
        trainers = {
            label: stack.enter_context(Worker(serve, label, SIZES[name], vocabulary, alike or label == "the kit"))
            for label in CONTESTANTS
        }
        seconds: dict[str, list[float]] = {label: [] for label in trainers}
        for number, batch in enumerate([batches[0], batches[-1], *batches]):
            for label in list(trainers) if number % 2 else list(reversed(trainers)):
                time.sleep(PAUSE)
                taken: float = trainers[label].ask(batch)
                if number > 1:  # the first two warm up
                    seconds[label].append(taken / batch.tokens)
    rate = {label: 1 / statistics.median(values) for label, values in seconds.items()}
    best = max(value for label, value in rate.items() if label != "the kit")
    waste = statistics.mean(batch.waste for batch in batches)
    table = Table("", "tokens/s", "the kit is", title=f"{name}, batches {kind} ({waste:.0%} padding)")
    for label, value in rate.items():
        table.add_row(label, f"{value:,.0f}", f"{rate['the kit'] / value:.2f} times")
    out.print(table)
    done = statistics.mean(flops(width, depth, vocabulary, batch) / batch.tokens for batch in batches) * rate["the kit"]
    out.print(f"model FLOPs over matrix-multiply rate: {done / matrix_rate():.2f} (aim: 0.85)")
    return rate["the kit"] / best


def main() -> None:
    """Measure all cells and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    default = os.environ.get("MULTI30K", str(Path(__file__).parents[2] / "shared" / "data" / "multi30k"))
    parser.add_argument("--data", type=Path, default=Path(default), help="the folder with train.en and train.de")
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--sizes", nargs="*", default=list(SIZES))
    parser.add_argument("--alike", action="store_true", help="the others with denormals flushed and memory kept too")
    parser.add_argument("--kinds", nargs="*", help="of batches; left out, all")
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    out = Console(width=100)
    batches, vocabulary = read_batches(arguments.data, arguments.batches)
    ratios = {
        (name, kind): compare(name, kind, made, vocabulary, arguments.alike, out)
        for name in arguments.sizes
        for kind, made in batches.items()
        if arguments.kinds is None or kind in arguments.kinds
    }
    for (name, kind), ratio in ratios.items():
        verdict = "holds" if ratio >= BAR else "DOES NOT HOLD"
        out.print(f"{name}, {kind}: {ratio:.2f} times the best of the others (bar {BAR}): {verdict}")


if __name__ == "__main__":
    main()
