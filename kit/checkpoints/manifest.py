"""The manifest of a checkpoint: the size and SHA-256 of every file; and shards, assembled into full tensors."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

import torch
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, NonNegativeInt
from torch import Tensor

from kit.files.atomic import DamagedCheckpoint, open_synced, sha256_of
from kit.files.strict_reading import parse_json, read_regular

NAME = "manifest.json"
FORMAT = "kit checkpoint 1"


class Manifest(BaseModel):
    """The files of a checkpoint, and its step, score and run."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    step: NonNegativeInt
    sequence: NonNegativeInt = 0
    """Increases with every save of a store, also after a return to an earlier step."""
    score: FiniteFloat | None = None
    """Its validation score, where it has one."""
    world: int = Field(1, ge=1, le=2**20)
    """The number of ranks that wrote it."""
    run: str = ""
    """The identity of the run that it belongs to."""
    parts: dict[Annotated[str, Field(pattern=r"^\w[\w.-]*$")], tuple[NonNegativeInt, str]] = {}
    """Size in bytes and SHA-256 of each file."""

    def to_bytes(self) -> bytes:
        """The canonical JSON of this manifest, with a digest of itself."""
        content: dict[str, Any] = {"format": FORMAT, **self.model_dump()}
        return _canonical({**content, "digest": hashlib.sha256(_canonical(content)).hexdigest()})

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Parse a manifest; DamagedCheckpoint if a byte differs from what was written."""
        try:
            content = json.loads(data)
            found = content.pop("format")
            del content["digest"]  # compared with the rest, byte for byte, below
            plain = _canonical(content)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise DamagedCheckpoint(f"{NAME} cannot be read ({error})") from error
        if found != FORMAT:
            raise DamagedCheckpoint(f"{NAME} is of the format {found!r}; this kit reads {FORMAT!r}")
        manifest: Self = parse_json(cls, plain, NAME, DamagedCheckpoint)
        if manifest.to_bytes() != data:
            raise DamagedCheckpoint(f"{NAME} was altered after it was written")
        return manifest


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a checkpoint; its own digest is verified, its files are not."""
    try:
        return Manifest.from_bytes(read_regular(folder / NAME))
    except FileNotFoundError as error:
        raise DamagedCheckpoint(f"{NAME} is missing") from error
    except OSError as error:
        raise DamagedCheckpoint(f"{NAME} cannot be read ({error.strerror})") from error


def write_manifest(folder: Path, *, step: int, sequence: int, score: float | None, world: int, run: str) -> Manifest:
    """Write the manifest of the files in a folder, and sync it."""
    files = sorted(path for path in folder.iterdir() if path.name != NAME)
    manifest = Manifest(
        step=step,
        sequence=sequence,
        score=score if score is not None and math.isfinite(score) else None,
        world=world,
        run=run,
        parts={path.name: (path.stat().st_size, sha256_of(path)) for path in files},
    )
    with open_synced(folder / NAME) as file:
        file.write(manifest.to_bytes())
    return manifest


def verify(folder: Path) -> Manifest:
    """Read the manifest and verify every file against it; DamagedCheckpoint names the damage."""
    manifest = read_manifest(folder)
    for name, (size, sha) in manifest.parts.items():
        path = folder / name
        try:
            found = path.stat().st_size
            if found != size:
                raise DamagedCheckpoint(f"{name} has {found} bytes where {size} were written")
            if sha256_of(path) != sha:
                raise DamagedCheckpoint(f"{name} does not hold what was written (its SHA-256 differs)")
        except FileNotFoundError as error:
            raise DamagedCheckpoint(f"{name} is missing") from error
        except OSError as error:
            raise DamagedCheckpoint(f"{name} cannot be read ({error.strerror})") from error
    return manifest


def _canonical(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(content, indent=1, sort_keys=True) + "\n").encode()


@dataclass(frozen=True)
class Shard:
    """A shard of a tensor, and its offset in the full tensor."""

    local: Tensor
    shape: tuple[int, ...]
    """The shape of the full tensor."""
    offset: tuple[int, ...]
    """The first index of the shard, along every axis of the full tensor."""


def shard_of(tensor: Tensor) -> Shard | None:
    """The local shard of a DTensor; None for an ordinary tensor."""
    if type(tensor) in (Tensor, torch.nn.Parameter):
        return None
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    if not isinstance(tensor, DTensor):
        return None
    # The function of torch's own distributed checkpoints, which handles uneven shards and meshes of several axes.
    _, offset = compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, tensor.placements)
    return Shard(tensor.to_local().detach(), tuple(tensor.shape), tuple(offset))


def assemble(name: str, shards: Iterable[Shard]) -> Tensor:
    """The full tensor of shards; DamagedCheckpoint if they leave a gap or are of different tensors."""
    shards = list(shards)
    shape = shards[0].shape
    dtype = shards[0].local.dtype
    filled: dict[tuple[tuple[int, ...], tuple[int, ...]], Tensor] = {}
    for shard in shards:
        if shard.shape != shape or shard.local.dtype != dtype:
            raise DamagedCheckpoint(f"the pieces of {name!r} are of different tensors")
        if shard.local.numel() == 0:
            continue
        size = tuple(shard.local.shape)
        inside = [start + length <= end for start, length, end in zip(shard.offset, size, shape, strict=False)]
        if not all(inside) or not len(shape) == len(size) == len(shard.offset):
            raise DamagedCheckpoint(f"a piece of {name!r} reaches past the whole")
        filled[shard.offset, size] = shard.local
    covered, wanted = sum(local.numel() for local in filled.values()), math.prod(shape)
    if covered != wanted:  # before memory is taken for a size that a file claims
        raise DamagedCheckpoint(f"the pieces of {name!r} hold {covered} of its {wanted} numbers")
    full = torch.empty(shape, dtype=dtype)
    for (offset, size), local in filled.items():
        full[tuple(slice(start, start + length) for start, length in zip(offset, size, strict=True))] = local
    return full
