"""Deterministic EM training of a unigram model, with the pruning of SentencePiece (Kudo 2018)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from kit_tokenizer.unigram_lattice import UnigramLattice

Scores = dict[str, float]
"""The score of each piece: its log-probability, as in SentencePiece."""
SEED_FACTOR = 8  # seed pieces per piece of the vocabulary
SHRINKING_FACTOR = 0.75  # the fraction of pieces that a pruning keeps
SUB_ITERATIONS = 2  # EM steps between prunings
MIN_EXPECTED_COUNT = 0.5  # a piece with a lower expected count is dropped


def train_unigram(
    words: Mapping[str, int], alphabet: Sequence[str], vocab_size: int, max_len: int
) -> list[tuple[str, float]]:
    """Returns at most `vocab_size` pieces, the alphabet included, with their scores; the best first."""
    scores = _seed_pieces(words, alphabet, SEED_FACTOR * vocab_size, max_len)
    while True:
        for _ in range(SUB_ITERATIONS):
            scores = _em_step(words, alphabet, scores, max_len)
        if len(scores) <= vocab_size:
            break
        scores = _prune(words, alphabet, scores, max(vocab_size, int(SHRINKING_FACTOR * len(scores))), max_len)
        if len(scores) <= vocab_size:
            scores = _em_step(words, alphabet, scores, max_len)
            break
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))


def _seed_pieces(words: Mapping[str, int], alphabet: Sequence[str], size: int, max_len: int) -> Scores:
    """The alphabet, and the substrings of words with the highest count times length."""
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for start in range(len(word)):
            for stop in range(start + 2, min(len(word), start + max_len) + 1):
                counts[word[start:stop]] += count
    scored = ((piece, count * len(piece)) for piece, count in counts.items() if count > 1)
    best = sorted(scored, key=lambda item: (-item[1], item[0]))[:size]
    characters: Counter[str] = Counter()
    for word, count in words.items():
        for character in word:
            characters[character] += count
    return _normalize({**{each: float(max(1, characters[each])) for each in alphabet}, **dict(best)})


def _em_step(words: Mapping[str, int], alphabet: Sequence[str], scores: Scores, max_len: int) -> Scores:
    """One step of expectation and maximization; rare pieces are dropped."""
    lattice = UnigramLattice(list(words), list(scores), max_len)
    counts = np.array(list(words.values()), dtype=np.float64)
    expected = lattice.expected_counts(np.array(list(scores.values())), counts)
    required = set(alphabet)
    kept = {
        piece: max(float(count), MIN_EXPECTED_COUNT)
        for piece, count in zip(scores, expected, strict=True)
        if count >= MIN_EXPECTED_COUNT or piece in required
    }
    return _normalize(kept)


def _prune(words: Mapping[str, int], alphabet: Sequence[str], scores: Scores, size: int, max_len: int) -> Scores:
    """Keeps `size` pieces: those whose removal, if spelt with other pieces, lowers the log-likelihood most."""
    pieces, values = list(scores), np.array(list(scores.values()))
    counts = np.array(list(words.values()), dtype=np.float64)
    expected = UnigramLattice(list(words), pieces, max_len).expected_counts(values, counts)
    respelt = UnigramLattice(pieces, pieces, max_len, whole_words=False).viterbi_scores(values)
    required = set(alphabet)
    candidates = [piece_id for piece_id, piece in enumerate(pieces) if piece not in required]
    loss = {piece_id: expected[piece_id] * (values[piece_id] - respelt[piece_id]) for piece_id in candidates}
    candidates.sort(key=lambda piece_id: (-loss[piece_id], pieces[piece_id]))
    kept = required | {pieces[piece_id] for piece_id in candidates[: max(0, size - len(required))]}
    return {piece: score for piece, score in scores.items() if piece in kept}


def _normalize(weights: Mapping[str, float]) -> Scores:
    total = sum(weights.values())
    return {piece: float(np.log(weight / total)) for piece, weight in weights.items()}
