"""Static word vectors: word2vec (Mikolov et al. 2013, by gensim) and GloVe (Pennington et al. 2014).

GloVe is implemented here, because gensim reads GloVe vectors but does not train them; with a few hundred words the full
co-occurrence matrix fits into every step.
Shapes: V words, D width.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

import torch
from torch import Tensor, nn

from kit import KitError

WINDOW = 5
"""The context window on each side, in words."""
STEPS = 300
COMMON = 100.0
"""The count from which a pair has full weight (GloVe's x_max)."""


def word2vec(sentences: Sequence[Sequence[str]], width: int, seed: int) -> dict[str, Tensor]:
    """Skip-gram with negative sampling."""
    try:
        models = import_module("gensim.models")
    except ImportError as error:
        raise KitError("word2vec needs gensim: pip install 'kitformer[study]'") from error
    trained = models.Word2Vec(
        sentences, vector_size=width, window=WINDOW, sg=1, min_count=1, workers=1, seed=seed + 1, epochs=5
    )
    return {word: torch.tensor(trained.wv[word]) for word in trained.wv.index_to_key}


def glove(sentences: Sequence[Sequence[str]], width: int, seed: int) -> dict[str, Tensor]:
    """Word vectors whose dot products fit the logarithms of co-occurrence counts."""
    words = sorted({word for sentence in sentences for word in sentence})
    numbers = {word: number for number, word in enumerate(words)}
    counts_VV = torch.zeros(len(words), len(words))
    for sentence in sentences:
        ids = [numbers[word] for word in sentence]
        for position, word in enumerate(ids):
            for distance in range(1, min(WINDOW, position) + 1):
                counts_VV[word, ids[position - distance]] += 1 / distance
                counts_VV[ids[position - distance], word] += 1 / distance
    seen_VV = counts_VV > 0
    weight_VV = (counts_VV / COMMON).clamp(max=1.0).pow(0.75) * seen_VV
    wanted_VV = counts_VV.clamp(min=1e-9).log()
    generator = torch.Generator().manual_seed(seed)
    one_VD, other_VD = (
        nn.Parameter((torch.rand(len(words), width, generator=generator) - 0.5) / width) for _ in range(2)
    )
    one_V, other_V = (nn.Parameter(torch.zeros(len(words))) for _ in range(2))
    optimizer = torch.optim.Adam([one_VD, other_VD, one_V, other_V], lr=0.05)
    with torch.enable_grad():
        for _ in range(STEPS):
            error_VV = one_VD @ other_VD.T + one_V[:, None] + other_V[None] - wanted_VV
            loss = (weight_VV * error_VV.square()).sum() / seen_VV.sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    both_VD = (one_VD + other_VD).detach()
    return {word: both_VD[number] for word, number in numbers.items()}
