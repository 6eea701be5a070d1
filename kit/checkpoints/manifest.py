"""The manifest of a checkpoint: the size and SHA-256 of every file; and shards, assembled into full tensors."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from kit.files.atomic import DamagedCheckpoint, open_synced, sha256_of

NAME = "manifest.json"
FORMAT = "kit checkpoint 1"


@dataclass(frozen=True)
class Manifest:
    """The files of a checkpoint, and its step, score and run."""

    step: int
    sequence: int = 0
    """Increases with every save of a store, also after a return to an earlier step."""
    score: float | None = None
    """Its validation score, where it has one."""
    world: int = 1
    """The number of ranks that wrote it."""
    run: str = ""
    """The identity of the run that it belongs to."""
    parts: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    """Size in bytes and SHA-256 of each file."""

    def to_bytes(self) -> bytes:
        """The canonical JSON of this manifest, with a digest of itself."""
        content: dict[str, Any] = {"format": FORMAT, **asdict(self)}
        return _canonical({**content, "digest": hashlib.sha256(_canonical(content)).hexdigest()})

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Parse a manifest; DamagedCheckpoint if a byte differs from what was written."""
        try:
            content = json.loads(data)
            found = content.pop("format")
            del content["digest"]  # compared with the rest, byte for byte, below
            content["parts"] = {name: (size, sha) for name, (size, sha) in content["parts"].items()}
            manifest = cls(**content)
            intact = manifest.to_bytes() == data and all(Path(name).name == name for name in manifest.parts)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise DamagedCheckpoint(f"{NAME} cannot be read ({error})") from error
        if found != FORMAT:
            raise DamagedCheckpoint(f"{NAME} is of the format {found!r}; this kit reads {FORMAT!r}")
        if not intact:
            raise DamagedCheckpoint(f"{NAME} was altered after it was written")
        return manifest


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a checkpoint; its own digest is verified, its files are not."""
    try:
        return Manifest.from_bytes((folder / NAME).read_bytes())
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
    full = torch.empty(shape, dtype=dtype)
    filled: set[tuple[tuple[int, ...], tuple[int, ...]]] = set()
    for shard in shards:
        if shard.shape != shape or shard.local.dtype != dtype:
            raise DamagedCheckpoint(f"the pieces of {name!r} are of different tensors")
        if shard.local.numel() == 0:
            continue
        size = tuple(shard.local.shape)
        if any(start + length > end for start, length, end in zip(shard.offset, size, shape, strict=True)):
            raise DamagedCheckpoint(f"a piece of {name!r} reaches past the whole")
        region = tuple(slice(start, start + length) for start, length in zip(shard.offset, size, strict=True))
        full[region] = shard.local
        filled.add((shard.offset, size))
    covered = sum(torch.Size(size).numel() for _, size in filled)
    if covered != full.numel():
        raise DamagedCheckpoint(f"the pieces of {name!r} hold {covered} of its {full.numel()} numbers")
    return full
