"""What assembling from parts costs: the base Transformer of the kit against the same model written by hand, in one run.

Forward and backward, width 512, 6+6 layers, 8 heads, a batch of 64 texts of 24 tokens, no dropout. Both hold the same
weights; steps alternate, and the medians are compared. The bar: at most 1.05.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from kit import Kit

WIDTH, HEADS, DEPTH, VOCABULARY = 512, 8, 6, 8000
RECIPE = {
    "name": "base",
    "model": {
        "family": "encoder-decoder",
        "width": WIDTH,
        "vocabulary": VOCABULARY,
        "tie": "all",
        "embedding": {"use": "token", "scale": True},
        "position": "sinusoidal",
        "norm": "layer",
        "encoder": {
            "depth": DEPTH,
            "attention": {"use": "softmax", "heads": HEADS},
            "feedforward": "relu",
            "residual": "post",
        },
        "decoder": {
            "depth": DEPTH,
            "attention": {"use": "softmax", "heads": HEADS},
            "cross_attention": {"use": "softmax", "heads": HEADS},
            "feedforward": "relu",
            "residual": "post",
            "masks": ["causal"],
        },
    },
}


class PlainLayer(nn.Module):
    """What a careful person writes for one layer, with nothing to swap."""

    def __init__(self, cross: bool) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        if cross:
            self.q, self.kv = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH)
            self.cross_out = nn.Linear(WIDTH, WIDTH)
            self.cross_norm = nn.LayerNorm(WIDTH)
        self.cross = cross
        self.norm, self.last_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor, memory: Tensor | None) -> Tensor:
        """Post-norm, as in the paper."""
        q, k, v = (split(part) for part in self.qkv(x).chunk(3, -1))
        x = self.norm(x + self.out(join(F.scaled_dot_product_attention(q, k, v, is_causal=self.cross))))
        if memory is not None:
            k, v = (split(part) for part in self.kv(memory).chunk(2, -1))
            x = self.cross_norm(x + self.cross_out(join(F.scaled_dot_product_attention(split(self.q(x)), k, v))))
        return self.last_norm(x + self.down(torch.relu(self.up(x))))


def split(x: Tensor) -> Tensor:
    """Into heads."""
    return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)


def join(x: Tensor) -> Tensor:
    """Heads into one."""
    return x.transpose(1, 2).flatten(2)


class Plain(nn.Module):
    """The whole model by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(VOCABULARY, WIDTH))
        self.encoder = nn.ModuleList(PlainLayer(False) for _ in range(DEPTH))
        self.decoder = nn.ModuleList(PlainLayer(True) for _ in range(DEPTH))
        at = torch.arange(512)[:, None] * 10_000.0 ** (-torch.arange(0, WIDTH, 2) / WIDTH)
        self.register_buffer("waves", torch.stack([at.sin(), at.cos()], -1).flatten(1))

    def embed(self, ids: Tensor) -> Tensor:
        """Scaled, with waves."""
        return F.embedding(ids, self.table) * WIDTH**0.5 + self.waves[: ids.shape[1]]

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Scores."""
        memory, x = self.embed(source), self.embed(target)
        for layer in self.encoder:
            memory = layer(memory, None)
        for layer in self.decoder:
            x = layer(x, memory)
        return F.linear(x, self.table)


def same_weights(plain: Plain, ours: nn.Module) -> None:
    """Ours into the plain one, by the order in which both name them."""
    names = {"attention.query_key_value": "qkv", "attention.output": "out", "residual.norms.attention": "norm",
             "cross_attention.query": "q", "cross_attention.key_value": "kv", "cross_attention.output": "cross_out",
             "residual.norms.cross_attention": "cross_norm", "feedforward.up": "up", "feedforward.down": "down",
             "residual.norms.feedforward": "last_norm"}  # fmt: skip
    weights = dict(plain.named_parameters())
    with torch.no_grad():
        for name, value in ours.named_parameters():
            if name == "encoder.embedding.table":
                weights["table"].copy_(value)
                continue
            side, _, _, layer, rest = name.split(".", 4)
            part, what = rest.rsplit(".", 1)
            weights[f"{side}.{layer}.{names[part]}.{what}"].copy_(value)


def step(model: nn.Module, source: Tensor, target: Tensor, labels: Tensor) -> tuple[float, float]:
    """Seconds of one forward and backward pass, and the loss."""
    model.zero_grad(set_to_none=True)
    start = time.perf_counter()
    loss = F.cross_entropy(model(source, target).flatten(0, 1), labels.flatten())
    loss.backward()
    return time.perf_counter() - start, loss.item()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    torch.set_flush_denormal(True)
    torch.manual_seed(0)
    kit = Kit()
    ours = kit.build(kit.recipe(RECIPE))
    plain = Plain()
    same_weights(plain, ours)
    source, target, labels = (torch.randint(0, VOCABULARY, (64, 24)) for _ in range(3))
    models = {"by hand": plain, "the kit": ours}
    losses = {name: step(model, source, target, labels)[1] for name, model in models.items()}
    assert abs(losses["by hand"] - losses["the kit"]) < 1e-4, losses
    seconds: dict[str, list[float]] = {name: [] for name in models}
    for number in range(rounds):
        for name in models if number % 2 else reversed(models):
            seconds[name].append(step(models[name], source, target, labels)[0])
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    title = f"forward and backward, {rounds} rounds, {torch.get_num_threads()} threads"
    table = Table("", "median s", "loss", title=title)
    for name in models:
        table.add_row(name, f"{medians[name]:.3f}", f"{losses[name]:.5f}")
    Console().print(table)
    ratio = medians["the kit"] / medians["by hand"]
    print(f"ratio {ratio:.3f} (bar: at most 1.05): {'holds' if ratio <= 1.05 else 'DOES NOT HOLD'}")


if __name__ == "__main__":
    main()
