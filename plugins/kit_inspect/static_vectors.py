"""Static word vectors, one a word: trained with word2vec, or read from a file of GloVe or word2vec vectors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kit import KitError


def word2vec(sentences: Iterable[Sequence[str]], width: int = 64, window: int = 5, seed: int = 0) -> dict[str, Tensor]:
    """Trains skip-gram with negative sampling (Mikolov et al. 2013), on one thread to be deterministic."""
    model = _gensim("Word2Vec")(
        [list(sentence) for sentence in sentences],
        vector_size=width,
        window=window,
        min_count=1,
        sg=1,
        epochs=10,
        seed=seed,
        workers=1,
    )
    return _plain(model.wv)


def read_vectors(path: Path) -> dict[str, Tensor]:
    """Reads vectors of GloVe, or of word2vec (whose first line is their number and width), from a text file."""
    try:
        with path.open(encoding="utf-8") as file:
            first = file.readline().split()
    except (OSError, UnicodeDecodeError) as error:
        raise KitError(f"{path} cannot be read as vectors: {error}") from error
    headed = len(first) == 2 and all(word.isdigit() for word in first)
    try:
        found = _gensim("KeyedVectors").load_word2vec_format(str(path), binary=False, no_header=not headed)
    except (ValueError, EOFError) as error:
        raise KitError(f"{path} holds no vectors, a word and its numbers a line: {error}") from error
    return _plain(found)


def _plain(keyed: Any) -> dict[str, Tensor]:
    vectors = torch.tensor(keyed.vectors)
    return {word: vectors[number] for word, number in keyed.key_to_index.items()}


def _gensim(name: str) -> Any:
    try:
        import gensim.models
    except ImportError as error:
        raise KitError("static vectors need gensim; type: pip install 'kitformer[embeddings]'") from error
    return getattr(gensim.models, name)
