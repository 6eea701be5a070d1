"""Statistical word alignment: IBM model 1 (Brown et al. 1993) with a diagonal prior.

A simple, effective reparameterization of IBM model 2 (Dyer et al. 2013); its tension is fixed here.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

Pair = tuple[Sequence[int], Sequence[int]]
NULL = -1
"""The id of the null source token."""
NULL_PROBABILITY = 0.08
"""The prior probability that a target token is aligned to no source token."""
FLOOR = 1e-9


class IbmAligner:
    """Learns from sentence pairs which source token each target token is aligned to."""

    def __init__(self, tension: float) -> None:
        self.tension = tension
        self._translation: dict[int, dict[int, float]] = {}

    def train(self, pairs: Sequence[Pair], rounds: int) -> None:
        """Expectation-maximisation from uniform translation probabilities."""
        self._translation = {}
        for _ in range(rounds):
            counts: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
            for source, target in pairs:
                for position in range(len(target)):
                    for token, probability in zip(
                        (NULL, *source), self._posterior(source, target, position), strict=True
                    ):
                        counts[token][target[position]] += probability
            totals = {token: sum(found.values()) for token, found in counts.items()}
            self._translation = {
                token: {written: count / totals[token] for written, count in found.items()}
                for token, found in counts.items()
            }

    def align(self, source: Sequence[int], target: Sequence[int]) -> list[int | None]:
        """The most probable source position of each target token; None for the null token."""
        found: list[int | None] = []
        for position in range(len(target)):
            posterior = self._posterior(source, target, position)
            best = max(range(len(posterior)), key=posterior.__getitem__)
            found.append(None if best == 0 else best - 1)
        return found

    def _posterior(self, source: Sequence[int], target: Sequence[int], position: int) -> list[float]:
        """The probability that a target token is aligned to the null token, and to each source token."""
        at = (position + 0.5) / len(target)
        near = [math.exp(-self.tension * abs((i + 0.5) / len(source) - at)) for i in range(len(source))]
        priors = [NULL_PROBABILITY, *((1 - NULL_PROBABILITY) * weight / sum(near) for weight in near)]
        written = target[position]
        joint = [
            prior * self._probability(token, written) for prior, token in zip(priors, (NULL, *source), strict=True)
        ]
        return [each / sum(joint) for each in joint]

    def _probability(self, token: int, written: int) -> float:
        if not self._translation:
            return 1.0
        return max(self._translation.get(token, {}).get(written, 0.0), FLOOR)
