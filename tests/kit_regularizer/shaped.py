"""A model whose attention is shaped, and the texts it reads."""

from __future__ import annotations

from typing import Any

from models.tiny_models import build, random_tokens

from kit import Model, Options

SOURCE, TARGET = random_tokens(5, 8), random_tokens(4, 6, seed=1)


def shaped(*options: Options, **more: Any) -> Model:
    """An encoder-decoder with these regularizers."""
    return build("encoder-decoder", regularizers=list(options), **more)
