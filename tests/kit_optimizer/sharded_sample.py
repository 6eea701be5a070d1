"""One of two processes that train a model spread over both, with every optimizer, against the model in one piece."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import kit_optimizer
from kit import KitError, parameter_groups


def a_model() -> nn.Module:
    """A model with a table, matrices, biases and a norm; 5 rows do not divide by 2."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(11, 8), nn.Linear(8, 5), nn.LayerNorm(5), nn.Linear(5, 4))


def train(model: nn.Module, part: Any) -> nn.Module:
    """Four steps."""
    built = part(part.options_type()).build(parameter_groups(model))
    for _ in range(4):
        built.zero_grad()
        model(torch.arange(6)).square().mean().backward()
        built.step()
    return model


def compare_all(rank: int) -> None:
    """Print, for each optimizer, the largest difference, or the error it answers with."""
    distributed.init_process_group("gloo", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    for part in kit_optimizer.kit_components():
        whole = train(a_model(), part)
        sharded = fully_shard(a_model(), mesh=mesh)
        try:
            train(sharded, part)
        except KitError as error:
            print(part.name(), type(error).__name__, flush=True)
            continue
        pairs = zip(whole.parameters(), sharded.parameters(), strict=True)
        print(part.name(), max((left - right.full_tensor()).abs().max().item() for left, right in pairs), flush=True)
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    compare_all(int(sys.argv[1]))
