"""The unigram lattice and trainer, against enumerated segmentations."""

from itertools import combinations, pairwise

import numpy as np
import pytest

from kit_tokenizer.unigram_lattice import UnigramLattice
from kit_tokenizer.unigram_trainer import train_unigram

PIECES = ["a", "b", "ab", "ba", "aba", "bab"]
SCORES = np.log([0.3, 0.2, 0.2, 0.1, 0.15, 0.05])


def segmentations(word):
    """Every segmentation of a word into pieces, with its probability."""
    for count in range(len(word)):
        for places in combinations(range(1, len(word)), count):
            bounds = [0, *places, len(word)]
            parts = [word[i:j] for i, j in pairwise(bounds)]
            if all(part in PIECES for part in parts):
                yield parts, np.exp(sum(SCORES[PIECES.index(part)] for part in parts))


def test_expected_counts_and_viterbi_scores_are_those_over_all_segmentations():
    words, counts = ["abab", "b", "aabba"], np.array([3.0, 1.0, 2.0])
    wanted = np.zeros(len(PIECES))
    for word, count in zip(words, counts, strict=True):
        total = sum(probability for _, probability in segmentations(word))
        for parts, probability in segmentations(word):
            for part in parts:
                wanted[PIECES.index(part)] += count * probability / total
    lattice = UnigramLattice(words, PIECES, max_len=3)
    np.testing.assert_allclose(lattice.expected_counts(SCORES, counts), wanted, rtol=1e-12)
    best = [max(probability for _, probability in segmentations(word)) for word in words]
    np.testing.assert_allclose(lattice.viterbi_scores(SCORES), np.log(best), rtol=1e-12)


def test_a_word_can_be_spelt_without_itself():
    spelt = UnigramLattice(PIECES, PIECES, max_len=3, whole_words=False).viterbi_scores(SCORES)
    assert np.isneginf(spelt[:2]).all()
    np.testing.assert_allclose(spelt[2], np.log(0.3 * 0.2))
    np.testing.assert_allclose(spelt[4], np.log(max(0.3 * 0.1, 0.2 * 0.3)))


def test_what_recurs_becomes_a_piece_and_the_alphabet_stays():
    alphabet = [*"abcdefghijklmnopqrstuvwxyz"]
    words = dict.fromkeys(["abing", "cding", "efing", "hjing", "kling"], 1)
    pieces = dict(train_unigram(words, alphabet, len(alphabet) + 1, max_len=8))
    assert set(pieces) == {*alphabet, "ing"}
    assert sum(np.exp(list(pieces.values()))) == pytest.approx(1.0, rel=1e-9)
