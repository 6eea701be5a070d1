"""The lattice and the learning of pieces, against counting by hand."""

from itertools import combinations, pairwise

import numpy as np
import pytest

from kit_tokenizer.lattice import Lattice
from kit_tokenizer.pieces import learn_pieces

PIECES = ["a", "b", "ab", "ba", "aba", "bab"]
SCORES = np.log([0.3, 0.2, 0.2, 0.1, 0.15, 0.05])


def cuts(word):
    """Every way to cut a word into known pieces, with its probability."""
    for count in range(len(word)):
        for places in combinations(range(1, len(word)), count):
            bounds = [0, *places, len(word)]
            parts = [word[i:j] for i, j in pairwise(bounds)]
            if all(part in PIECES for part in parts):
                yield parts, np.exp(sum(SCORES[PIECES.index(part)] for part in parts))


def test_expected_counts_and_best_cuts_are_those_over_all_cuts():
    words, counts = ["abab", "b", "aabba"], np.array([3.0, 1.0, 2.0])
    wanted = np.zeros(len(PIECES))
    for word, count in zip(words, counts, strict=True):
        total = sum(probability for _, probability in cuts(word))
        for parts, probability in cuts(word):
            for part in parts:
                wanted[PIECES.index(part)] += count * probability / total
    lattice = Lattice(words, PIECES, longest=3)
    np.testing.assert_allclose(lattice.expected(SCORES, counts), wanted, rtol=1e-12)
    best = [max(probability for _, probability in cuts(word)) for word in words]
    np.testing.assert_allclose(lattice.best(SCORES), np.log(best), rtol=1e-12)


def test_a_word_can_be_spelt_without_itself():
    spelt = Lattice(PIECES, PIECES, longest=3, whole=False).best(SCORES)
    assert np.isneginf(spelt[:2]).all()
    np.testing.assert_allclose(spelt[2], np.log(0.3 * 0.2))
    np.testing.assert_allclose(spelt[4], np.log(max(0.3 * 0.1, 0.2 * 0.3)))


def test_what_recurs_becomes_a_piece_and_the_alphabet_stays():
    alphabet = [*"abcdefghijklmnopqrstuvwxyz"]
    words = dict.fromkeys(["abing", "cding", "efing", "hjing", "kling"], 1)
    pieces = dict(learn_pieces(words, alphabet, len(alphabet) + 1, longest=8))
    assert set(pieces) == {*alphabet, "ing"}
    assert sum(np.exp(list(pieces.values()))) == pytest.approx(1.0, rel=1e-9)
