"""Learning the pieces of a unigram model by expectation and maximization, repeatably (Kudo 2018)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from kit_tokenizer.lattice import Lattice

Scores = dict[str, float]
"""The logarithm of each piece's probability."""
SEEDS = 8  # seed pieces for one that is kept
KEPT = 0.75  # what a round of pruning leaves
ROUNDS = 2  # of expectation and maximization between prunings
RARE = 0.5  # a piece expected less often than this is dropped


def learn_pieces(words: Mapping[str, int], alphabet: Sequence[str], size: int, longest: int) -> list[tuple[str, float]]:
    """At most `size` pieces with the logarithms of their probabilities, likeliest first; the alphabet is always in."""
    scores = _seeds(words, alphabet, SEEDS * size, longest)
    while True:
        for _ in range(ROUNDS):
            scores = _improved(words, alphabet, scores, longest)
        if len(scores) <= size:
            break
        scores = _pruned(words, alphabet, scores, max(size, int(KEPT * len(scores))), longest)
        if len(scores) <= size:
            scores = _improved(words, alphabet, scores, longest)
            break
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))


def _seeds(words: Mapping[str, int], alphabet: Sequence[str], size: int, longest: int) -> Scores:
    """The alphabet, and the pieces of words that save most."""
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for start in range(len(word)):
            for stop in range(start + 2, min(len(word), start + longest) + 1):
                counts[word[start:stop]] += count
    useful = ((piece, count * len(piece)) for piece, count in counts.items() if count > 1)
    best = sorted(useful, key=lambda item: (-item[1], item[0]))[:size]
    letters: Counter[str] = Counter()
    for word, count in words.items():
        for letter in word:
            letters[letter] += count
    weights = {**{letter: float(max(1, letters[letter])) for letter in alphabet}, **dict(best)}
    return _normalised(weights)


def _improved(words: Mapping[str, int], alphabet: Sequence[str], scores: Scores, longest: int) -> Scores:
    """One round: how often each piece is expected in the words, and the probabilities that follow."""
    lattice = Lattice(list(words), list(scores), longest)
    expected = lattice.expected(np.array(list(scores.values())), np.array(list(words.values()), dtype=np.float64))
    always = set(alphabet)
    kept = {
        piece: max(float(count), RARE)
        for piece, count in zip(scores, expected, strict=True)
        if count >= RARE or piece in always
    }
    return _normalised(kept)


def _pruned(words: Mapping[str, int], alphabet: Sequence[str], scores: Scores, size: int, longest: int) -> Scores:
    """The pieces that would be missed most: how much less likely the words get if a piece is spelt with others."""
    pieces, values = list(scores), np.array(list(scores.values()))
    counts = np.array(list(words.values()), dtype=np.float64)
    expected = Lattice(list(words), pieces, longest).expected(values, counts)
    without = Lattice(pieces, pieces, longest, whole=False).best(values)
    always = set(alphabet)
    candidates = [number for number, piece in enumerate(pieces) if piece not in always]
    loss = {number: expected[number] * (values[number] - without[number]) for number in candidates}
    candidates.sort(key=lambda number: (-loss[number], pieces[number]))
    kept = always | {pieces[number] for number in candidates[: max(0, size - len(always))]}
    return {piece: score for piece, score in scores.items() if piece in kept}


def _normalised(weights: Mapping[str, float]) -> Scores:
    total = sum(weights.values())
    return {piece: float(np.log(weight / total)) for piece, weight in weights.items()}
