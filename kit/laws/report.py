"""Report of testing a part: one verdict for each law, printed as a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from kit.laws.law import Law

Outcome = Literal["passed", "failed", "not claimed"]


@dataclass(frozen=True)
class Verdict:
    """The outcome of one law."""

    law: Law
    outcome: Outcome
    message: str = ""
    """The violation, or why the law does not apply."""
    cause: Exception | None = None
    """The exception, with its traceback."""


@dataclass(frozen=True)
class Report:
    """The verdicts on a part, in the order of the laws."""

    part: str
    """The kind and the name of the part."""
    verdicts: tuple[Verdict, ...]

    def __iter__(self) -> Iterator[Verdict]:
        return iter(self.verdicts)

    @property
    def failures(self) -> list[Verdict]:
        """The verdicts of broken laws."""
        return [verdict for verdict in self.verdicts if verdict.outcome == "failed"]

    @property
    def passed(self) -> bool:
        """Whether no law is broken."""
        return not self.failures

    @property
    def untried(self) -> str | None:
        """Why no law was tried at all; None if one was."""
        if any(verdict.outcome != "not claimed" for verdict in self.verdicts):
            return None
        return self.verdicts[0].message if self.verdicts else "no law was chosen"

    def __str__(self) -> str:
        width = max([len(verdict.law.title) for verdict in self.verdicts], default=0)
        lines = [f"{self.part}: {self._count('passed')} laws kept, {self._count('failed')} broken, "
                 f"{self._count('not claimed')} not claimed"]  # fmt: skip
        for verdict in self.verdicts:
            sign = {"passed": "+", "failed": "x", "not claimed": "-"}[verdict.outcome]
            first, *more = (verdict.message or verdict.law.sentence).splitlines()
            lines.append(f"  {sign} {verdict.law.title:<{width}}  {first}")
            lines += [f"    {'':<{width}}  {line}" for line in more]
        return "\n".join(lines)

    def _count(self, outcome: Outcome) -> int:
        return sum(verdict.outcome == outcome for verdict in self.verdicts)
