"""One of two processes that hold tensors together and save them."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, distribute_tensor
from torch.distributed.tensor import Shard as Along

from kit.checkpoints.contents import Snapshot
from kit.checkpoints.store import CheckpointStore, Ranks


def save_a_piece(folder: str, rank: int) -> None:
    """Spread tensors in three ways and save them together."""
    distributed.init_process_group("gloo", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    whole = torch.arange(35.0).reshape(5, 7)  # 5 rows do not divide by 2
    rows, columns = (distribute_tensor(whole, mesh, [Along(axis)]) for axis in (0, 1))
    weights = {"rows": rows, "plain": torch.ones(2), "copied": distribute_tensor(whole + 1, mesh, [Replicate()])}
    training = {"state": {0: {"average": columns, "step": torch.tensor(3.0)}}}
    store = CheckpointStore(Path(folder), ranks=Ranks.current())
    store.save(3, Snapshot(weights, training, own={"rank": rank, "generator": torch.tensor([rank])}))
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    save_a_piece(sys.argv[1], int(sys.argv[2]))
