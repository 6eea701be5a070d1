"""The files of a checkpoint: the weights, the training state, and the state of each rank."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, TypeAdapter, ValidationError
from torch import Tensor

from kit.checkpoints.manifest import Manifest, Shard, assemble, shard_of
from kit.checkpoints.state_codec import decode, encode
from kit.files.atomic import DamagedCheckpoint, open_synced
from kit.files.strict_reading import first_mistake, read_regular
from kit.files.tensors import read_tensors, write_tensors

WEIGHTS = "weights.safetensors"
_Axes = tuple[Annotated[int, Field(strict=True, ge=0)], ...]
_SLICES = TypeAdapter(dict[str, tuple[_Axes, _Axes]])
"""Shape of the full tensor and offset of the shard, by the tensor's name."""


@dataclass(frozen=True)
class Snapshot:
    """What one rank saves; of what all ranks have in common, rank 0's is written."""

    weights: Mapping[str, Tensor]
    """The model's state dict; each rank writes its shard of a DTensor."""
    training: Any = None
    """The state of optimizer and loop: nested dicts, lists and tuples of numbers, text, bytes and tensors."""
    own: Any = None
    """The state of this rank alone, such as its random generators."""


@dataclass(frozen=True)
class Checkpoint:
    """A loaded checkpoint: full tensors on the CPU, whatever the number of ranks that wrote them."""

    path: Path
    manifest: Manifest
    weights: dict[str, Tensor]
    training: Any
    own: list[Any] = field(default_factory=list)
    """The state of each rank, by rank; None for one that saved none."""

    @property
    def step(self) -> int:
        """The number of updates that had been made."""
        return self.manifest.step


def write_parts(folder: Path, state: Snapshot, rank: int = 0) -> None:
    """Write this rank's files into a folder, and sync them."""
    shards: dict[str, Shard] = {}
    plain: dict[str, Tensor] = {}
    for name, tensor in state.weights.items():
        if shard := shard_of(tensor):
            shards[f"weights/{name}"] = shard
        else:
            plain[name] = tensor
    training = encode(state.training)
    shards |= {f"training/{name}": shard for name, shard in training.shards.items()}
    if rank == 0:
        write_tensors(folder / WEIGHTS, plain)
        _write_pair(folder, "training", training.structure, training.tensors)
    if state.own is not None or shards:
        own = encode(state.own)
        tensors = {f"own/{name}": tensor for name, tensor in own.tensors.items()}
        tensors |= {f"shard/{name}": shard.local for name, shard in shards.items()}
        slices = {name: [shard.shape, shard.offset] for name, shard in shards.items()}
        _write_pair(folder, f"rank-{rank}", {"own": own.structure, "shards": slices}, tensors)


def read_parts(folder: Path, manifest: Manifest) -> Checkpoint:
    """Read a checkpoint whose manifest was verified."""
    weights = read_tensors(folder / WEIGHTS)
    structure, tensors = _read_pair(folder, "training")
    own: list[Any] = []
    shards: dict[str, list[Shard]] = {}
    for rank in range(manifest.world):
        if f"rank-{rank}.json" not in manifest.parts:
            own.append(None)
            continue
        content, tensors_of_rank = _read_pair(folder, f"rank-{rank}")
        try:
            own.append(decode(content["own"], _without_prefix("own/", tensors_of_rank), f"rank-{rank}.json"))
            for name, (shape, offset) in _SLICES.validate_python(content["shards"]).items():
                shards.setdefault(name, []).append(Shard(tensors_of_rank[f"shard/{name}"], shape, offset))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DamagedCheckpoint(f"rank-{rank}.json is not what this kit writes ({first_mistake(error)})") from error
    full = {name: assemble(name, found) for name, found in shards.items()}
    training = decode(structure, tensors | _without_prefix("training/", full), "training.json")
    return Checkpoint(folder, manifest, weights | _without_prefix("weights/", full), training, own)


def _without_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _write_pair(folder: Path, name: str, structure: Any, tensors: Mapping[str, Tensor]) -> None:
    write_tensors(folder / f"{name}.safetensors", tensors)
    with open_synced(folder / f"{name}.json") as file:
        file.write(json.dumps(structure, allow_nan=False).encode())


def _read_pair(folder: Path, name: str) -> tuple[Any, dict[str, Tensor]]:
    try:
        structure = json.loads(read_regular(folder / f"{name}.json"))
    except (OSError, ValueError, RecursionError) as error:
        raise DamagedCheckpoint(f"{name}.json cannot be read ({error})") from error
    return structure, read_tensors(folder / f"{name}.safetensors")


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", arbitrary_types_allowed=True)


class _OptimizerState(_Strict):
    state: dict[NonNegativeInt, dict[str, Any]]
    param_groups: list[dict[str, Any]]


class _EarlyStoppingState(_Strict):
    best: float | None
    waited: NonNegativeInt


class _TrainingState(_Strict):
    step: NonNegativeInt
    optimizer: _OptimizerState
    early_stopping: _EarlyStoppingState
    average: dict[str, Tensor] | None
    pending_validation: dict[str, float] | None
    precision: dict[str, float]
    tensor_parallel: PositiveInt


_TwisterIndex = Annotated[float, Field(ge=0, le=624)]
"""An index into the state of a Mersenne twister; NumPy reads out of bounds for a larger one."""


class _RandomState(_Strict):
    torch: Tensor
    numpy: Annotated[tuple[Literal["MT19937"], Tensor, _TwisterIndex, float, float], Field(strict=False)]
    python: tuple[Literal[3], tuple[NonNegativeInt, ...], float | None]
    cuda: Tensor | None = None


def check_training_state(checkpoint: Checkpoint) -> None:
    """Check what `kit train` saves: the types, and the average against the weights; DamagedCheckpoint names a field."""
    states: list[tuple[str, type[BaseModel], Any]] = [("training.json", _TrainingState, checkpoint.training)]
    states += [
        (f"rank-{rank}.json: own", _RandomState, own) for rank, own in enumerate(checkpoint.own) if own is not None
    ]
    for name, kind, state in states:
        try:
            kind.model_validate(state)
        except ValidationError as error:
            raise DamagedCheckpoint(f"{name}: {first_mistake(error)}") from error
    for name, value in (checkpoint.training["average"] or {}).items():
        if name not in checkpoint.weights or checkpoint.weights[name].shape != value.shape:
            raise DamagedCheckpoint(f"training.json: average.{name} has not the shape of a weight of that name")
