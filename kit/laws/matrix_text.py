"""Tables of the compatibility matrix, with the reason for each refusal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kit.laws.matrix import AXES, Matrix, Pair

YES, PARTLY, NO = "yes", "partly", "no"
SIGNS = {YES: "✓", PARTLY: "◐", NO: "✗"}
LEGEND = "✓ in every family that takes each of the two by itself · ◐ in some of them · ✗ in none"


@dataclass(frozen=True)
class Table:
    """The verdicts on all pairs of two axes."""

    rows: str
    columns: str
    pairs: tuple[Pair, ...]
    alone: dict[tuple[str, str], frozenset[str]]
    """The families in which each name can be built with neutral parts."""

    @property
    def is_full(self) -> bool:
        """Whether every pair can be built in all families in which both names can."""
        return all(self.verdict(pair) == YES for pair in self.pairs)

    def verdict(self, pair: Pair) -> str:
        """Returns whether a pair can be combined: yes, partly or no."""
        possible = (
            self.alone[pair.first] & self.alone[pair.second] if "family" not in (self.rows, self.columns) else None
        )
        if not pair.works:
            return NO
        return YES if possible is None or possible <= set(pair.works) else PARTLY

    def reasons(self) -> list[str]:
        """Returns the error messages without duplicates; for a pair those that name both parts, if there are any."""
        found: dict[str, None] = {}
        for pair in self.pairs:
            if self.verdict(pair) != YES:
                reasons = [message for messages in pair.refusals.values() for message in messages]
                both = [message for message in reasons if all(name in message for _, name in (pair.first, pair.second))]
                found |= dict.fromkeys(both or reasons)
        return sorted(found)


def tables(matrix: Matrix, axes: Iterable[str] = AXES) -> Iterator[Table]:
    """Yields a table for each pair of axes."""
    chosen = list(axes)
    alone = {pair.first: frozenset[str]() for axis in AXES[:-1] for pair in matrix.pairs(axis, "family")}
    for axis in AXES[:-1]:
        for pair in matrix.pairs(axis, "family"):
            alone[pair.first] |= set(pair.works)
    for number, rows in enumerate(chosen):
        for columns in chosen[number + 1 :]:
            yield Table(rows, columns, tuple(matrix.pairs(rows, columns)), alone)


def markdown(matrix: Matrix) -> str:
    """Renders the page of the documentation."""
    lines = [
        "# What goes with what",
        "",
        "Written by `kit matrix --write docs/compatibility.md`, from what the installed parts declare. A combination",
        "that is refused is refused when a recipe is read, with the messages listed under its table; all others build,",
        "train for a step and, with a decoder, decode with a cache. A test runs all pairs and many full",
        "combinations. A decoder has a causal mask beside those that do not hide the future themselves.",
        "",
        f"{LEGEND}.",
    ]
    full = []
    for table in tables(matrix):
        if table.is_full:
            full.append(f"{table.rows} × {table.columns} ({len(table.pairs)} pairs)")
        else:
            lines += ["", f"## {table.rows} × {table.columns}", "", *_grid(table)]
            lines += ["", *(f"- {reason}" for reason in table.reasons())]
    lines += ["", "## Everything goes with everything", "", *(f"- {each}" for each in full)]
    return "\n".join(lines) + "\n"


def as_data(matrix: Matrix) -> list[dict[str, object]]:
    """Returns the matrix as data for JSON."""
    return [
        {
            pair.first[0]: pair.first[1],
            pair.second[0]: pair.second[1],
            "verdict": table.verdict(pair),
            "works": list(pair.works),
            "refused": {family: list(messages) for family, messages in pair.refusals.items()},
        }
        for table in tables(matrix)
        for pair in table.pairs
    ]


def grid(table: Table) -> tuple[list[str], list[list[str]]]:
    """Returns the column names, and rows of a name and a sign for each column."""
    columns = list(dict.fromkeys(pair.second[1] for pair in table.pairs))
    rows: dict[str, list[str]] = {}
    for pair in table.pairs:
        rows.setdefault(pair.first[1], []).append(SIGNS[table.verdict(pair)])
    return columns, [[name, *signs] for name, signs in rows.items()]


def _grid(table: Table) -> list[str]:
    columns, rows = grid(table)
    lines = [f"| {table.rows} | {' | '.join(columns)} |", f"|---|{':-:|' * len(columns)}"]
    return lines + [f"| {' | '.join(row)} |" for row in rows]
