"""The lock of a run: the code, versions, seed and data it depends on, and a comparison with the current ones."""

from __future__ import annotations

import platform
import secrets
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field

from kit.files.atomic import write_text
from kit.files.strict_reading import parse_json, read_regular
from kit.runs.provenance import KIT, Source, UsedPart, source_of
from kit.runs.provenance import differences as part_differences
from kit.runs.run_directory import RunError


class Lock(BaseModel):
    """Everything besides the recipe that the results of a run depend on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: str = Field(default_factory=lambda: secrets.token_hex(8))
    """The id of the run, also stored in its checkpoints."""
    kit: Source
    plugins: Mapping[str, Source]
    """The source of each plugin, by name."""
    parts: Mapping[str, UsedPart] = {}
    """The components that the recipe uses, by kind and name."""
    torch: str
    python: str
    platform: str
    seed: int
    data: Mapping[str, str] = {}
    """The fingerprint of each split, by name."""

    @classmethod
    def current(
        cls,
        plugins: Mapping[str, Source],
        *,
        seed: int,
        data: Mapping[str, str] | None = None,
        parts: Mapping[str, UsedPart] | None = None,
    ) -> Self:
        """The lock of a run that starts now."""
        return cls(
            kit=source_of("kit", KIT),
            plugins=dict(sorted(plugins.items())),
            parts=dict(parts or {}),
            torch=metadata.version("torch"),
            python=platform.python_version(),
            platform=f"{platform.system()} {platform.machine()}",
            seed=seed,
            data=dict(data or {}),
        )

    def write(self, path: Path) -> None:
        """Write it as JSON, atomically."""
        write_text(path, self.model_dump_json(indent=2) + "\n")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the lock of a run."""
        try:
            data = read_regular(path)
        except FileNotFoundError as error:
            raise RunError(f"{path} is missing: what the run was made with is not known.") from error
        except OSError as error:
            raise RunError(f"{path} cannot be read: {error.strerror}.") from error
        lock: Self = parse_json(cls, data, f"{path} is not a lock that this kit can read", RunError)
        return lock


def compare(lock: Lock, current: Lock) -> list[str]:
    """The differences between the lock of a run and the current one, a sentence each.

    New plugins, and plugins that the run did not use, are ignored.
    """
    return [*_differences(lock, current)]


def _differences(lock: Lock, current: Lock) -> Iterator[str]:
    yield from _compare_source("the kit", lock.kit, current.kit)
    for name, source in lock.plugins.items():
        if not _was_used(name, lock, current):
            continue
        if name in current.plugins:
            yield from _compare_source(f"plugin {name}", source, current.plugins[name])
        elif source.distribution:
            wanted = source.distribution + (f"=={source.version}" if source.version else "")
            yield f"plugin {name} is not here; it came with {wanted}: pip install {wanted}"
        else:
            yield f"plugin {name} is not here, and it was not installed from a distribution: its files are needed"
    if current.parts:
        known = {title: part for title, part in lock.parts.items() if part.plugin in current.plugins}
        yield from part_differences(known, current.parts)
    for what, then, now in (
        ("torch", lock.torch, current.torch),
        ("Python", lock.python, current.python),
        ("the platform", lock.platform, current.platform),
        ("the seed", str(lock.seed), str(current.seed)),
    ):
        if then != now:
            yield f"{what} was {then}, is {now}"
    yield from _compare_data(lock.data, current.data)


def _was_used(plugin: str, lock: Lock, current: Lock) -> bool:
    """Whether the run depends on a plugin: by a component, or by a hook that is called in every run."""
    acts = any(source.acts for source in (lock.plugins.get(plugin), current.plugins.get(plugin)) if source is not None)
    return acts or not lock.parts or any(part.plugin == plugin for part in lock.parts.values())


def _compare_source(what: str, then: Source, now: Source) -> Iterable[str]:
    if then.distribution != now.distribution:
        yield f"{what} came with {then.distribution or 'no distribution'}, now comes with {now.distribution or 'none'}"
    elif then.version != now.version:
        wanted = f": pip install {then.distribution}=={then.version} brings it back" if then.version else ""
        yield f"{what} was version {then.version or 'unknown'}, is {now.version or 'unknown'}{wanted}"
    elif then.sha256 != now.sha256:
        yield f"{what} was edited: still version {then.version or 'unknown'}, but its files differ"


def _compare_data(then: Mapping[str, str], now: Mapping[str, str]) -> Iterable[str]:
    """The changed data; nothing if there are no current fingerprints, as in prediction."""
    for name, fingerprint in then.items() if now else ():
        if name not in now:
            yield f"data {name} was used and is not here"
        elif now[name] != fingerprint:
            yield f"data {name} has changed since (SHA-256 {fingerprint[:12]}, now {now[name][:12]})"
    yield from (f"data {name} was not used in the run" for name in now if name not in then)
