"""CheckpointStore: the checkpoints of a run, written atomically by all ranks, verified when loaded, and pruned."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from kit.checkpoints.contents import Checkpoint, Snapshot, check_training_state, read_parts, write_parts
from kit.checkpoints.manifest import NAME, Manifest, read_manifest, verify, write_manifest
from kit.files import atomic_folder
from kit.files.atomic import (
    CheckpointError,
    DamagedCheckpoint,
    DamagedCheckpointWarning,
    StorageError,
    explain_os_errors,
    write_text,
)
from kit.files.strict_reading import read_regular
from kit.kernels.devices import collective_device


@dataclass(frozen=True)
class Ranks:
    """The ranks that write a checkpoint together: which this is, of how many, and how all of them agree."""

    rank: int = 0
    world: int = 1
    agree: Callable[[bool], bool] = bool
    """All-reduce of success: whether every rank called it with True."""

    @classmethod
    def current(cls) -> Self:
        """The ranks of torch's process group; one alone where there is none."""
        import torch
        from torch import distributed

        if not (distributed.is_available() and distributed.is_initialized()):
            return cls()

        def agree(done: bool) -> bool:
            votes = torch.tensor(int(done), device=collective_device())
            distributed.all_reduce(votes, op=distributed.ReduceOp.MIN)
            return bool(votes.item())

        return cls(distributed.get_rank(), distributed.get_world_size(), agree)


@dataclass(frozen=True)
class Retention:
    """Retention policy: which checkpoints are kept."""

    last: int = 2
    """The number of newest ones; with 2, a damaged newest one still leaves the one before."""
    best: int = 1
    """The number of those with the best score."""
    lower_is_better: bool = True
    regular: int = 0
    """The number of newest ones at regular steps, however many others were saved in between."""
    every: int = 1
    """A step is regular where it is a multiple of this."""

    def keeps(self, manifests: dict[Path, Manifest]) -> set[Path]:
        """The checkpoints to keep, of those with a readable manifest."""
        newest = sorted(manifests, key=lambda path: manifests[path].sequence, reverse=True)
        regular = [path for path in newest if manifests[path].step % self.every == 0]
        return {*newest[: max(1, self.last)], *self.ranked(manifests)[: self.best], *regular[: self.regular]}

    def ranked(self, manifests: dict[Path, Manifest]) -> list[Path]:
        """The checkpoints that have a score, best first; of equals the older first."""
        sign = 1 if self.lower_is_better else -1
        scores = {path: sign * found.score for path, found in manifests.items() if found.score is not None}
        return sorted(scores, key=lambda path: (scores[path], manifests[path].sequence))


_STEP = re.compile(r"^step-(\d{8,})$")
_LATEST = re.compile(r"(step-\d{8,}) ([0-9a-f]{64})\n")


@dataclass
class CheckpointStore:
    """A folder of checkpoints `step-00001200/`, and the file `latest` that names the newest."""

    folder: Path
    run: str = ""
    """The identity of the run: a checkpoint of another run that was put here is refused."""
    retention: Retention = field(default_factory=Retention)
    ranks: Ranks = field(default_factory=Ranks)
    left_out: frozenset[str] = frozenset()
    """Names of checkpoints that are ignored."""
    check: Callable[[Checkpoint], None] = check_training_state
    """Raises DamagedCheckpoint where the state is not what this store is for."""

    def save(self, step: int, state: Snapshot, score: float | None = None) -> Path:
        """Write a checkpoint. Collective. StorageError if that fails on a rank; earlier checkpoints stay intact."""
        path = self.folder / f"step-{step:08d}"
        first = self.ranks.rank == 0
        self._on_all_ranks(path, lambda: self._begin(path) if first else None)
        self._on_all_ranks(path, lambda: write_parts(atomic_folder.saving(path), state, self.ranks.rank))
        self._on_all_ranks(path, lambda: self._publish(path, step, score) if first else None)
        return path

    def load_latest(self) -> Checkpoint:
        """The newest intact checkpoint; a warning names the damage of those passed over."""
        return self._first_intact(self._newest_first(), self._problem_with_latest(), "Going on from")

    def load_best(self) -> Checkpoint:
        """The best intact checkpoint, else the newest; a warning names the damage of those passed over."""
        manifests, newest = self._manifests(), self._newest_first()
        ranked = self.retention.ranked(manifests)
        # One whose manifest cannot be read may have been the best, so it is tried first, and named.
        unknown = [path for path in newest if _STEP.match(path.name) and path not in manifests]
        if not ranked and not unknown:
            return self.load_latest()
        rest = [path for path in newest if path not in ranked and path not in unknown]
        return self._first_intact([*unknown, *ranked, *rest], [], "Taking")

    def intact(self) -> Self:
        """The store without its damaged checkpoints; a warning names them."""
        problems = {}
        for path in self._folders():
            if _STEP.match(path.name):
                try:
                    self._verified(path)
                except DamagedCheckpoint as error:
                    problems[path.name] = f"{path.name} is damaged: {error}"
        if problems:
            kept = replace(self, left_out=self.left_out | problems.keys())
            found = "; ".join(problems[name] for name in sorted(problems))
            if not kept.steps():
                raise CheckpointError(f"no checkpoint in {self.folder} can be used: {found}.")
            others = ", ".join(map(str, kept.steps()))
            warnings.warn(f"{found}. Taking those of the steps {others}.", DamagedCheckpointWarning, stacklevel=2)
            return kept
        return self

    def load(self, step: int) -> Checkpoint:
        """The checkpoint of one step; DamagedCheckpoint if it is not what was written."""
        path = self.folder / f"step-{step:08d}"
        if not path.is_dir():
            there = ", ".join(map(str, self.steps())) or "none"
            raise CheckpointError(f"no checkpoint of step {step} in {self.folder}; there are: {there}.")
        try:
            return self._read(path)
        except DamagedCheckpoint as error:
            raise DamagedCheckpoint(f"{path} is damaged: {error}.") from error

    def steps(self) -> list[int]:
        """The steps that have a checkpoint, in ascending order, damaged ones included."""
        return sorted(int(match[1]) for path in self._folders() if (match := _STEP.match(path.name)))

    def best(self) -> int | None:
        """The step with the best score; None where none has a score."""
        ranked = self.retention.ranked(self._manifests())
        return int(ranked[0].name.removeprefix("step-")) if ranked else None

    def tidy(self) -> None:
        """Remove what a killed process left behind; called by one rank when training starts."""
        if self.folder.is_dir():
            with explain_os_errors(self.folder):
                atomic_folder.tidy(self.folder)

    def _begin(self, path: Path) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        atomic_folder.tidy(self.folder)
        atomic_folder.begin(path)

    def _publish(self, path: Path, step: int, score: float | None) -> None:
        sequence = 1 + max((found.sequence for found in self._manifests().values()), default=0)
        manifest = write_manifest(
            atomic_folder.saving(path), step=step, sequence=sequence, score=score, world=self.ranks.world, run=self.run
        )
        atomic_folder.publish(path)
        write_text(self.folder / "latest", f"{path.name} {hashlib.sha256(manifest.to_bytes()).hexdigest()}\n")
        manifests = self._manifests()
        for old in manifests.keys() - self.retention.keeps(manifests) - {path}:
            atomic_folder.remove(old)

    def _on_all_ranks(self, path: Path, work: Callable[[], None]) -> None:
        failure: Exception | None = None
        try:
            with explain_os_errors(path, self._kept()):
                work()
        except Exception as error:
            failure = error
        if not self.ranks.agree(failure is None):
            if self.ranks.rank == 0:
                atomic_folder.discard(path)
            raise failure or StorageError(
                f"cannot write {path}: another process failed to write its part. {self._kept()}"
            )

    def _kept(self) -> str:
        newest = next(iter(self._newest_first()), None)
        return f"The checkpoint before, {newest.name}, is intact." if newest else "There is no earlier checkpoint."

    def _first_intact(self, paths: Sequence[Path], problems: list[str], taking: str) -> Checkpoint:
        for path in paths:
            try:
                checkpoint = self._read(path)
            except DamagedCheckpoint as error:
                problems.append(f"{path.name} is damaged: {error}")
                continue
            if problems:
                text = f"{'; '.join(problems)}. {taking} {path.name}, which is as it was written."
                warnings.warn(text, DamagedCheckpointWarning, stacklevel=3)
            return checkpoint
        found = "; ".join(problems) if problems else "the run was stopped before its first one"
        raise CheckpointError(f"no checkpoint in {self.folder} can be used: {found}.")

    def _read(self, path: Path) -> Checkpoint:
        checkpoint = read_parts(path, self._verified(path))
        self.check(checkpoint)
        return checkpoint

    def _verified(self, path: Path) -> Manifest:
        manifest = verify(path)
        if path.name.removeprefix(".replaced-") != f"step-{manifest.step:08d}":
            raise DamagedCheckpoint(f"it holds the checkpoint of step {manifest.step}")
        if manifest.run != self.run:
            raise DamagedCheckpoint("it belongs to another run")
        return manifest

    def _folders(self) -> list[Path]:
        if not self.folder.is_dir():
            return []
        return [path for path in self.folder.iterdir() if path.is_dir() and path.name not in self.left_out]

    def _newest_first(self) -> list[Path]:
        """All checkpoints, newest first; one with an unreadable manifest comes by its step, so that it is named."""
        found = []
        for path in self._folders():
            name = path.name.removeprefix(".replaced-")
            if _STEP.match(name) and (path.name == name or not (self.folder / name).exists()):
                found.append(path)
        manifests = self._manifests()
        known = {manifest.step: manifest.sequence for manifest in manifests.values()}

        def age(path: Path) -> tuple[int, int]:
            step = int(path.name.rpartition("-")[2])
            if path in manifests:
                return manifests[path].sequence, step
            return max((sequence for other, sequence in known.items() if other <= step), default=0), step

        return sorted(found, key=age, reverse=True)

    def _manifests(self) -> dict[Path, Manifest]:
        manifests = {}
        for path in self._folders():
            if _STEP.match(path.name):
                try:
                    manifests[path] = read_manifest(path)
                except DamagedCheckpoint:
                    continue
        return manifests

    def _problem_with_latest(self) -> list[str]:
        if not self._folders():
            return []
        try:
            match = _LATEST.fullmatch(read_regular(self.folder / "latest").decode())
        except (OSError, ValueError):
            return ["the file latest is missing or cannot be read"]
        if not match:
            return ["the file latest was altered"]
        manifest = self.folder / match[1] / NAME
        if not manifest.is_file():
            return [f"the file latest names {match[1]}, which is not there"]
        if hashlib.sha256(read_regular(manifest)).hexdigest() != match[2]:
            return [f"{match[1]} is not the checkpoint that the file latest names"]
        return []
