"""Geometry of word vectors: self-similarity, anisotropy, nearest neighbours, separation of senses, and a PCA plot.

How Contextual are Contextualized Word Representations? (Ethayarajh 2019).
Shapes: N vectors, M words, D width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from kit import KitError
from kit_inspect.token_vectors import Occurrences

MIN_OCCURRENCES = 2
"""The minimum number of occurrences for which vectors are compared."""
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""A colour-blind-safe palette (Okabe and Ito)."""


@dataclass(frozen=True)
class ContextualityReport:
    """How contextual vectors are, averaged over words (a static embedding has self-similarity 1)."""

    self_similarity: float
    """The mean cosine of two vectors of one word."""
    baseline: float
    """The mean cosine of vectors of two different words: the anisotropy of the space."""
    first_pc_variance: float
    """The fraction of the squared norm of a word's vectors along their first principal direction."""

    @property
    def adjusted(self) -> float:
        """Self-similarity minus the anisotropy baseline."""
        return self.self_similarity - self.baseline


def mean_cosine(vectors_ND: Tensor) -> float:
    """Computes the mean cosine over pairs of vectors [N, D]; NaN for fewer than two."""
    unit = F.normalize(vectors_ND.double(), dim=-1)
    count = len(unit)
    if count < MIN_OCCURRENCES:
        return float("nan")
    # The cosines of all pairs sum to the squared norm of the summed unit vectors.
    return float((unit.sum(0).square().sum() - unit.square().sum()) / (count * (count - 1)))


def anisotropy(vectors_ND: Tensor, words: Sequence[str], pairs: int = 20_000, seed: int = 0) -> float:
    """Computes the mean cosine of vectors [N, D] of two different words, over random pairs."""
    unit = F.normalize(vectors_ND.double(), dim=-1)
    if len(set(words)) < MIN_OCCURRENCES:
        return float("nan")
    numbers = {word: number for number, word in enumerate(dict.fromkeys(words))}
    word_N = torch.tensor([numbers[word] for word in words])
    one, other = torch.randint(len(unit), (2, pairs), generator=torch.Generator().manual_seed(seed))
    different = word_N[one] != word_N[other]
    return float((unit[one[different]] * unit[other[different]]).sum(-1).mean())


def first_pc_variance(vectors_ND: Tensor) -> float:
    """Computes the fraction of the squared norm of vectors [N, D] along their first principal direction."""
    squares = torch.linalg.svdvals(vectors_ND.double()).square()
    return float(squares[0] / squares.sum()) if float(squares.sum()) > 0 else float("nan")


def self_similarity(vectors_ND: Tensor, words: Sequence[str]) -> ContextualityReport:
    """Computes self-similarity, anisotropy and first_pc_variance over all words that occur more than once."""
    positions: dict[str, list[int]] = {}
    for position, word in enumerate(words):
        positions.setdefault(word, []).append(position)
    several = [found for found in positions.values() if len(found) >= MIN_OCCURRENCES]
    own = [mean_cosine(vectors_ND[found]) for found in several]
    variances = [first_pc_variance(vectors_ND[found]) for found in several]
    return ContextualityReport(_mean(own), anisotropy(vectors_ND, words), _mean(variances))


def neighbours(vectors_ND: Tensor, words: Sequence[str], word: str, most: int = 8) -> list[tuple[str, float]]:
    """Returns the words whose mean vectors have the largest cosine with that of a word, and the cosines."""
    numbers = {each: number for number, each in enumerate(dict.fromkeys(words))}
    word_N = torch.tensor([numbers[each] for each in words])
    centred = vectors_ND.double() - vectors_ND.double().mean(0)  # removes the anisotropy
    sums_MD = torch.zeros(len(numbers), centred.shape[1], dtype=torch.float64).index_add_(0, word_N, centred)
    unit_MD = F.normalize(sums_MD, dim=-1)
    cosines = unit_MD @ unit_MD[numbers[word]]
    order = cosines.argsort(descending=True).tolist()
    names = list(numbers)
    return [(names[number], float(cosines[number])) for number in order if names[number] != word][:most]


def nearest_sense(vectors_ND: Tensor, senses: Sequence[str]) -> float:
    """Computes the accuracy of 1-nearest-neighbour classification of senses by cosine; ties count in equal parts.

    With one static vector a word all neighbours are tied, and the accuracy is that of chance.
    """
    unit = F.normalize(vectors_ND.double(), dim=-1)
    cosines = (unit @ unit.T).fill_diagonal_(-2)
    best = cosines >= cosines.amax(1, keepdim=True) - 1e-9
    same = _same_sense(senses)
    return float(((best & same).sum(1) / best.sum(1)).double().mean())


def sense_chance(senses: Sequence[str]) -> float:
    """Computes the accuracy of a random neighbour: how often another occurrence has the same sense."""
    same = _same_sense(senses).fill_diagonal_(False)
    return float(same.double().sum(1).div(len(senses) - 1).mean())


def silhouette(vectors_ND: Tensor, senses: Sequence[str]) -> float:
    """Computes the mean silhouette coefficient of senses by cosine distance: from -1 to 1."""
    unit = F.normalize(vectors_ND.double(), dim=-1)
    distance = 1 - unit @ unit.T
    clusters = {sense: torch.tensor([each == sense for each in senses]) for sense in dict.fromkeys(senses)}
    values = []
    for position, sense in enumerate(senses):
        own = clusters[sense].clone()
        own[position] = False
        others = [distance[position][found].mean() for name, found in clusters.items() if name != sense]
        if own.any() and others:
            inside, outside = distance[position][own].mean(), torch.stack(others).min()
            values.append(float((outside - inside) / torch.maximum(inside, outside).clamp(min=1e-12)))
    return _mean(values)


def pca_2d(vectors_ND: Tensor) -> Tensor:
    """Computes the first two principal components [N, 2], with signs such that the largest loading is positive."""
    centred = vectors_ND.double() - vectors_ND.double().mean(0)
    _, _, right = torch.linalg.svd(centred, full_matrices=False)
    axes = torch.zeros(2, centred.shape[1], dtype=torch.float64)
    axes[: min(2, len(right))] = right[:2]
    largest = axes.gather(1, axes.abs().argmax(1, keepdim=True))
    return centred @ (axes * torch.where(largest < 0, -1.0, 1.0)).T


def draw(found: Occurrences, word: str, path: Path) -> None:
    """Writes the PCA scatter plot of one word's occurrences as PNG: a panel a layer, a colour a sense."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise KitError("a picture needs matplotlib; type: pip install 'kitformer[plots]'") from error
    names = list(found.layers)
    figure = Figure(figsize=(3.2 * len(names), 3.4), layout="constrained")
    panels = figure.subplots(1, len(names), squeeze=False)[0]
    senses = list(dict.fromkeys(found.senses))
    for panel, name in zip(panels, names, strict=True):
        points = pca_2d(found.layers[name])
        for number, sense in enumerate(senses):
            chosen = [position for position, each in enumerate(found.senses) if each == sense]
            x, y = points[chosen].T.tolist()
            label = "all" if sense is None else sense
            panel.scatter(x, y, s=14, alpha=0.7, color=COLOURS[number % len(COLOURS)], label=label, linewidths=0)
        panel.set_title(name, fontsize=10)
        panel.set_xticks([])
        panel.set_yticks([])
        panel.margins(0.15)
    if senses != [None]:
        panels[0].legend(fontsize=8, frameon=False)
    figure.suptitle(f"{word}: {len(found.words)} times", fontsize=11)
    figure.savefig(path, dpi=150)


def _same_sense(senses: Sequence[str]) -> Tensor:
    numbers = {sense: number for number, sense in enumerate(dict.fromkeys(senses))}
    sense_N = torch.tensor([numbers[sense] for sense in senses])
    return sense_N[:, None] == sense_N[None]


def _mean(values: Sequence[float]) -> float:
    real = [value for value in values if value == value]
    return sum(real) / len(real) if real else float("nan")
