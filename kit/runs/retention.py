"""Which checkpoints of a run are kept: the newest, those with the best scores, and the newest at regular steps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kit.runs.manifest import Manifest


@dataclass(frozen=True)
class Retention:
    """Which checkpoints are kept."""

    last: int = 2
    """How many of the newest; with 2, a damaged newest one still leaves the one before."""
    best: int = 1
    """How many of those with the best score."""
    lower_is_better: bool = True
    regular: int = 0
    """How many of the newest at regular steps, however many others were saved in between."""
    every: int = 1
    """A step is regular where it is a multiple of this."""

    def keeps(self, manifests: dict[Path, Manifest]) -> set[Path]:
        """The folders to keep, of those with a readable manifest."""
        newest = sorted(manifests, key=lambda path: manifests[path].sequence, reverse=True)
        regular = [path for path in newest if manifests[path].step % self.every == 0]
        return {*newest[: max(1, self.last)], *self.ranked(manifests)[: self.best], *regular[: self.regular]}

    def ranked(self, manifests: dict[Path, Manifest]) -> list[Path]:
        """The folders that have a score, best first; of equals the older."""
        sign = 1 if self.lower_is_better else -1
        scores = {path: sign * found.score for path, found in manifests.items() if found.score is not None}
        return sorted(scores, key=lambda path: (scores[path], manifests[path].sequence))
