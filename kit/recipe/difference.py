"""What differs between two recipes: in what they say, and in what they cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

MISSING = "—"


@dataclass(frozen=True)
class Change:
    """One path in the recipe with its value on either side."""

    path: str
    before: Any
    after: Any


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """Every leaf of two plain recipes that is not the same, in the order of the first."""
    left, right = dict(_leaves(before)), dict(_leaves(after))
    paths = [*left, *(path for path in right if path not in left)]
    return [
        Change(path, left.get(path, MISSING), right.get(path, MISSING))
        for path in paths
        if left.get(path, MISSING) != right.get(path, MISSING)
    ]


def _leaves(data: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield from _leaves(value, f"{path}.{key}" if path else str(key))
    elif isinstance(data, list | tuple):
        for index, value in enumerate(data):
            yield from _leaves(value, f"{path}[{index}]")
    else:
        yield path, data
