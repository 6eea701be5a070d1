"""What looking inside costs: nothing where nobody looks, and no output changes where somebody does.

A small encoder-decoder runs forward in two ways, in turns: as it is, and with the methods that ask whether somebody
watches replaced by ones that do not ask. Processor time is counted, since other programs may be running, and medians of
many bursts are compared; the bar is 1.01. Then scores are computed watched and unwatched; the bar is 1e-5.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from types import MethodType
from typing import Any

import torch
from rich.console import Console
from torch import Tensor

from kit import AttentionRecorder, Kit, MultiHeadAttention, TokenBatch
from kit.model.families import Tower

RECIPE = {
    "name": "watched",
    "model": {
        "family": "encoder-decoder",
        "width": 256,
        "vocabulary": 2000,
        "position": "sinusoidal",
        "norm": "layer",
        "encoder": {
            "depth": 4,
            "attention": {"use": "softmax", "heads": 4},
            "feedforward": "relu",
            "residual": "pre",
        },
        "decoder": {
            "depth": 4,
            "attention": {"use": "softmax", "heads": 4},
            "cross_attention": {"use": "softmax", "heads": 4},
            "feedforward": "relu",
            "residual": "pre",
            "masks": ["causal"],
        },
    },
}


def never_watched(part: Any, x: Tensor, memory: Tensor | None, context: Any, state: Any = None) -> Tensor:
    """Attention in heads as it would be if nobody could watch."""
    q, k, v = part.project(x, memory, context, state)
    out_BQD = part.attend(q, k, v, context).transpose(1, 2).flatten(2)
    joined: Tensor = part.join(context.queries.unpad(out_BQD), x)
    return joined


def never_shaped(
    side: Any, tokens: Any, layout: Any, memory: Any = None, state: Any = None, observer: Any = None
) -> Tensor:
    """One side of a model as it would be if there were no regularizers and no watchers."""
    x = side.stack.embed(side.embedding.mark(side.embedding(layout.unpad(tokens.ids)), {}), layout.packed_positions)
    last: Tensor = side.stack(side.dropout(x), layout, memory, state)
    return last


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bursts", type=int, default=150)
    arguments = parser.parse_args()
    console = Console(width=100)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    kit = Kit()
    recipe = kit.recipe(RECIPE)
    model = kit.build(recipe).eval()
    bare = kit.build(recipe).eval()
    bare.load_state_dict(model.state_dict())
    for part in bare.modules():
        if isinstance(part, MultiHeadAttention):
            part.forward = MethodType(never_watched, part)  # type: ignore[method-assign]
        if isinstance(part, Tower):
            part.forward = MethodType(never_shaped, part)  # type: ignore[method-assign]
    source = TokenBatch.from_lists([torch.randint(6, 2000, (20 + row,)).tolist() for row in range(8)])
    target = TokenBatch.from_lists([torch.randint(6, 2000, (16 + row,)).tolist() for row in range(8)])
    ways: dict[str, Callable[[], Tensor]] = {
        "as it is": lambda: model(source, target, packed=True),
        "never watched": lambda: bare(source, target, packed=True),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    with torch.inference_mode():
        assert torch.equal(ways["as it is"](), ways["never watched"]())
        for burst in range(arguments.bursts + 10):
            order = list(ways) if burst % 2 else list(ways)[::-1]
            for name in order:
                began = time.process_time()
                ways[name]()
                if burst >= 10:
                    times[name].append(time.process_time() - began)
        watched = model(source, target, packed=True, observer=AttentionRecorder())
        difference = float((watched - ways["as it is"]()).abs().max())
    middle = {name: statistics.median(found) * 1e3 for name, found in times.items()}
    ratio = middle["as it is"] / middle["never watched"]
    console.print(f"forward, nobody watching   {middle['as it is']:.2f} ms")
    console.print(f"the same, never asking     {middle['never watched']:.2f} ms")
    console.print(f"ratio                      {ratio:.4f}, wanted at most 1.01")
    console.print(f"difference when watched    {difference:.2g}, wanted at most 1e-5")
    sys.exit(0 if ratio <= 1.01 and difference <= 1e-5 else 1)


if __name__ == "__main__":
    main()
