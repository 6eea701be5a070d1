"""Where vectors lie: how alike those of one word are, who is near whom, whether senses stand apart, and a flat picture.

How Contextual are Contextualized Word Representations? (Ethayarajh 2019).
Shapes: N vectors, M words, D width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

FEWEST = 2
"""Times a word must occur for its vectors to be compared."""


@dataclass(frozen=True)
class Spread:
    """How far the vectors of one word are from being one vector."""

    self_similarity: float
    """The mean cosine of two of its vectors."""
    baseline: float
    """The mean cosine of vectors of two different words: in a narrow cone everything is alike."""
    explained: float
    """The share of the squared length of its vectors that lies in one direction."""

    @property
    def adjusted(self) -> float:
        """Self-similarity beyond what any two words have."""
        return self.self_similarity - self.baseline


def mean_cosine(vectors_ND: Tensor) -> float:
    """Of each two of these vectors; not a number where there are fewer than two."""
    unit = F.normalize(vectors_ND.double(), dim=-1)
    count = len(unit)
    if count < FEWEST:
        return float("nan")
    # The cosines of all pairs sum to the squared length of the sum.
    return float((unit.sum(0).square().sum() - unit.square().sum()) / (count * (count - 1)))


def baseline(vectors_ND: Tensor, words: Sequence[str], pairs: int = 20_000, seed: int = 0) -> float:
    """The mean cosine of vectors of two different words, drawn at random."""
    unit = F.normalize(vectors_ND.double(), dim=-1)
    if len(set(words)) < FEWEST:
        return float("nan")
    numbers = {word: number for number, word in enumerate(dict.fromkeys(words))}
    which = torch.tensor([numbers[word] for word in words])
    one, other = torch.randint(len(unit), (2, pairs), generator=torch.Generator().manual_seed(seed))
    apart = which[one] != which[other]
    return float((unit[one[apart]] * unit[other[apart]]).sum(-1).mean())


def explained(vectors_ND: Tensor) -> float:
    """The share of the squared length of these vectors that lies in their main direction."""
    sizes = torch.linalg.svdvals(vectors_ND.double()).square()
    return float(sizes[0] / sizes.sum()) if float(sizes.sum()) > 0 else float("nan")


def spread(vectors_ND: Tensor, words: Sequence[str]) -> Spread:
    """The same for all words that occur more than once, in the mean over words."""
    places: dict[str, list[int]] = {}
    for place, word in enumerate(words):
        places.setdefault(word, []).append(place)
    several = [found for found in places.values() if len(found) >= FEWEST]
    own = [mean_cosine(vectors_ND[found]) for found in several]
    along = [explained(vectors_ND[found]) for found in several]
    between = baseline(vectors_ND, words)
    return Spread(_mean(own), between, _mean(along))


def neighbours(vectors_ND: Tensor, words: Sequence[str], word: str, most: int = 8) -> list[tuple[str, float]]:
    """The words whose mean vectors have the largest cosine with that of a word."""
    numbers = {each: number for number, each in enumerate(dict.fromkeys(words))}
    which = torch.tensor([numbers[each] for each in words])
    centred = vectors_ND.double() - vectors_ND.double().mean(0)  # what all have in common says nothing of any
    sums_MD = torch.zeros(len(numbers), centred.shape[1], dtype=torch.float64).index_add_(0, which, centred)
    unit_MD = F.normalize(sums_MD, dim=-1)
    near = unit_MD @ unit_MD[numbers[word]]
    order = near.argsort(descending=True).tolist()
    names = list(numbers)
    return [(names[number], float(near[number])) for number in order if names[number] != word][:most]


def nearest_sense(vectors_ND: Tensor, senses: Sequence[str]) -> float:
    """How often the nearest other vector has the same sense; those that are equally near share the point.

    For one vector a word, whatever its sense, all are equally near, and this is chance.
    """
    unit = F.normalize(vectors_ND.double(), dim=-1)
    near = (unit @ unit.T).fill_diagonal_(-2)
    best = near >= near.amax(1, keepdim=True) - 1e-9
    same = _same(senses)
    return float(((best & same).sum(1) / best.sum(1)).double().mean())


def chance(senses: Sequence[str]) -> float:
    """How often another vector, taken at random, has the same sense."""
    same = _same(senses).fill_diagonal_(False)
    return float(same.double().sum(1).div(len(senses) - 1).mean())


def silhouette(vectors_ND: Tensor, senses: Sequence[str]) -> float:
    """How much nearer, by cosine, a vector is to its own sense than to the nearest other: from -1 to 1."""
    unit = F.normalize(vectors_ND.double(), dim=-1)
    apart = 1 - unit @ unit.T
    groups = {sense: torch.tensor([each == sense for each in senses]) for sense in dict.fromkeys(senses)}
    scores = []
    for place, sense in enumerate(senses):
        own = groups[sense].clone()
        own[place] = False
        others = [apart[place][found].mean() for name, found in groups.items() if name != sense]
        if own.any() and others:
            inside, outside = apart[place][own].mean(), torch.stack(others).min()
            scores.append(float((outside - inside) / torch.maximum(inside, outside).clamp(min=1e-12)))
    return _mean(scores)


def flat(vectors_ND: Tensor) -> Tensor:
    """[N, 2]: the two main directions, each turned so that its largest part is positive: the same each time."""
    centred = vectors_ND.double() - vectors_ND.double().mean(0)
    _, _, right = torch.linalg.svd(centred, full_matrices=False)
    axes = torch.zeros(2, centred.shape[1], dtype=torch.float64)
    axes[: min(2, len(right))] = right[:2]
    largest = axes.gather(1, axes.abs().argmax(1, keepdim=True))
    return centred @ (axes * torch.where(largest < 0, -1.0, 1.0)).T


def _same(senses: Sequence[str]) -> Tensor:
    numbers = {sense: number for number, sense in enumerate(dict.fromkeys(senses))}
    which = torch.tensor([numbers[sense] for sense in senses])
    return which[:, None] == which[None]


def _mean(values: Sequence[float]) -> float:
    real = [value for value in values if value == value]
    return sum(real) / len(real) if real else float("nan")
