"""The manifest of a checkpoint: the size and SHA-256 of every part, so that a single flipped bit is noticed."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from kit.runs.atomic import synced
from kit.runs.damage import DamagedCheckpoint

NAME = "manifest.json"
FORMAT = "kit checkpoint 1"


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, read in pieces."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class Manifest:
    """What a checkpoint consists of, and where in its run it belongs."""

    step: int
    sequence: int = 0
    """Grows with every save of a store, also after going back to an earlier step."""
    score: float | None = None
    """What it scored in validation, where that is known."""
    world: int = 1
    """How many processes wrote it."""
    run: str = ""
    """The identity of the run that it belongs to."""
    parts: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    """Size in bytes and SHA-256 of each file."""

    def to_bytes(self) -> bytes:
        """The one way to write this manifest down; it ends in a digest of itself."""
        content: dict[str, Any] = {"format": FORMAT, **asdict(self)}
        return _canonical({**content, "digest": hashlib.sha256(_canonical(content)).hexdigest()})

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read a manifest; every byte has to be as it was written."""
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
    """The manifest of a checkpoint, itself verified, its parts not."""
    try:
        return Manifest.from_bytes((folder / NAME).read_bytes())
    except FileNotFoundError as error:
        raise DamagedCheckpoint(f"{NAME} is missing") from error
    except OSError as error:
        raise DamagedCheckpoint(f"{NAME} cannot be read ({error.strerror})") from error


def write_manifest(folder: Path, *, step: int, sequence: int, score: float | None, world: int, run: str) -> Manifest:
    """Describe every file in a folder, and sync the description."""
    files = sorted(path for path in folder.iterdir() if path.name != NAME)
    manifest = Manifest(
        step=step,
        sequence=sequence,
        score=score if score is not None and math.isfinite(score) else None,
        world=world,
        run=run,
        parts={path.name: (path.stat().st_size, sha256_of(path)) for path in files},
    )
    with synced(folder / NAME) as file:
        file.write(manifest.to_bytes())
    return manifest


def verify(folder: Path) -> Manifest:
    """Read the manifest and hash every part against it; DamagedCheckpoint says what is wrong."""
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
