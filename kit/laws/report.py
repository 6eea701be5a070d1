"""What came of holding a part to its laws: one verdict a law, printed as a short table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from kit.laws.law import Law

Outcome = Literal["passed", "failed", "not claimed"]


@dataclass(frozen=True)
class Verdict:
    """What came of one law."""

    law: Law
    outcome: Outcome
    message: str = ""
    """What went wrong, or why the law does not concern the part."""
    cause: Exception | None = None
    """What was raised, with its traceback."""


@dataclass(frozen=True)
class Report:
    """Every law of a part's kind, in order."""

    part: str
    """Kind and name of the part."""
    verdicts: tuple[Verdict, ...]

    def __iter__(self) -> Iterator[Verdict]:
        return iter(self.verdicts)

    @property
    def failures(self) -> list[Verdict]:
        """The laws that it breaks."""
        return [verdict for verdict in self.verdicts if verdict.outcome == "failed"]

    @property
    def passed(self) -> bool:
        """Whether it breaks none."""
        return not self.failures

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
