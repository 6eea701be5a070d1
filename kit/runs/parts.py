"""The files that a checkpoint consists of: weights, the training state, and what belongs to one process only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from kit.runs.atomic import synced
from kit.runs.damage import DamagedCheckpoint
from kit.runs.manifest import Manifest
from kit.runs.ranks import Ranks
from kit.runs.shards import Shard, assemble, shard_of
from kit.runs.tensors import read_tensors, write_tensors
from kit.runs.tree import decode, encode

WEIGHTS = "weights.safetensors"


@dataclass(frozen=True)
class Snapshot:
    """What is saved: every process gives its own, and of what is the same everywhere the first process's is kept."""

    weights: Mapping[str, Tensor]
    """The model, by parameter name; tensors that are spread over processes are stored piece by piece."""
    training: Any = None
    """Optimizer, schedule and loop: nested dicts, lists and tuples of numbers, text, bytes and tensors."""
    own: Any = None
    """What only this process has, such as its random generators."""


@dataclass(frozen=True)
class Checkpoint:
    """What was loaded: whole tensors on the CPU, however many processes wrote them."""

    path: Path
    manifest: Manifest
    weights: dict[str, Tensor]
    training: Any
    own: list[Any] = field(default_factory=list)
    """What each process stored for itself, by rank; None for one that stored nothing."""

    @property
    def step(self) -> int:
        """How many updates had been made."""
        return self.manifest.step


def write_parts(folder: Path, state: Snapshot, ranks: Ranks) -> None:
    """Write this process's files into a folder, and sync them."""
    pieces: dict[str, Shard] = {}
    plain: dict[str, Tensor] = {}
    for name, tensor in state.weights.items():
        if shard := shard_of(tensor):
            pieces[f"weights/{name}"] = shard
        else:
            plain[name] = tensor
    training = encode(state.training)
    pieces |= {f"training/{name}": shard for name, shard in training.shards.items()}
    if ranks.rank == 0:
        write_tensors(folder / WEIGHTS, plain)
        _write_pair(folder, "training", training.structure, training.tensors)
    if state.own is not None or pieces:
        own = encode(state.own)
        tensors = {f"own/{name}": tensor for name, tensor in own.tensors.items()}
        tensors |= {f"shard/{name}": shard.local for name, shard in pieces.items()}
        places = {name: [shard.shape, shard.offset] for name, shard in pieces.items()}
        _write_pair(folder, f"rank-{ranks.rank}", {"own": own.structure, "shards": places}, tensors)


def read_parts(folder: Path, manifest: Manifest) -> Checkpoint:
    """Read a checkpoint whose manifest was verified."""
    weights = read_tensors(folder / WEIGHTS)
    structure, tensors = _read_pair(folder, "training")
    own: list[Any] = []
    pieces: dict[str, list[Shard]] = {}
    for rank in range(manifest.world):
        if f"rank-{rank}.json" not in manifest.parts:
            own.append(None)
            continue
        found, held = _read_pair(folder, f"rank-{rank}")
        try:
            own.append(decode(found["own"], _under("own/", held)))
            for name, (shape, offset) in found["shards"].items():
                pieces.setdefault(name, []).append(Shard(held[f"shard/{name}"], tuple(shape), tuple(offset)))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DamagedCheckpoint(f"rank-{rank}.json is not what this kit writes ({error})") from error
    whole = {name: assemble(name, shards) for name, shards in pieces.items()}
    training = decode(structure, tensors | _under("training/", whole))
    return Checkpoint(folder, manifest, weights | _under("weights/", whole), training, own)


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _write_pair(folder: Path, name: str, structure: Any, tensors: Mapping[str, Tensor]) -> None:
    write_tensors(folder / f"{name}.safetensors", tensors)
    with synced(folder / f"{name}.json") as file:
        file.write(json.dumps(structure, allow_nan=False).encode())


def _read_pair(folder: Path, name: str) -> tuple[Any, dict[str, Tensor]]:
    try:
        structure = json.loads((folder / f"{name}.json").read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise DamagedCheckpoint(f"{name}.json cannot be read ({error})") from error
    return structure, read_tensors(folder / f"{name}.safetensors")
