"""A statistical alignment of pairs of texts: IBM model 1 (Brown et al. 1993) with a liking for the diagonal.

A simple, effective reparameterization of IBM model 2 (Dyer et al. 2013); its tension is fixed here.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

Pair = tuple[Sequence[int], Sequence[int]]
NOWHERE = -1
FROM_NOWHERE = 0.08
"""How likely a token is expected to come from no source token."""
FLOOR = 1e-9


class Aligner:
    """Learns which source token each target token comes from, from pairs alone."""

    def __init__(self, tension: float) -> None:
        self.tension = tension
        self._likely: dict[int, dict[int, float]] = {}

    def train(self, pairs: Sequence[Pair], rounds: int) -> None:
        """Expectation and maximisation, from everything alike."""
        self._likely = {}
        for _ in range(rounds):
            counts: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
            for source, target in pairs:
                for place in range(len(target)):
                    for token, share in zip((NOWHERE, *source), self._shares(source, target, place), strict=True):
                        counts[token][target[place]] += share
            totals = {token: sum(found.values()) for token, found in counts.items()}
            self._likely = {
                token: {written: count / totals[token] for written, count in found.items()}
                for token, found in counts.items()
            }

    def align(self, source: Sequence[int], target: Sequence[int]) -> list[int | None]:
        """For each target token the place of its likeliest source token; None where it comes from nowhere."""
        found: list[int | None] = []
        for place in range(len(target)):
            shares = self._shares(source, target, place)
            best = max(range(len(shares)), key=shares.__getitem__)
            found.append(None if best == 0 else best - 1)
        return found

    def _shares(self, source: Sequence[int], target: Sequence[int], place: int) -> list[float]:
        """How likely the token at this place comes from nowhere, and from each source token."""
        at = (place + 0.5) / len(target)
        near = [math.exp(-self.tension * abs((i + 0.5) / len(source) - at)) for i in range(len(source))]
        expected = [FROM_NOWHERE, *((1 - FROM_NOWHERE) * weight / sum(near) for weight in near)]
        written = target[place]
        shares = [
            prior * self._chance(token, written) for prior, token in zip(expected, (NOWHERE, *source), strict=True)
        ]
        return [share / sum(shares) for share in shares]

    def _chance(self, token: int, written: int) -> float:
        if not self._likely:
            return 1.0
        return max(self._likely.get(token, {}).get(written, 0.0), FLOOR)
