"""Random input of a given length for measures, and the embedding and stack of single-stack models."""

from __future__ import annotations

import torch

from kit import DecoderModel, Embedding, EncoderModel, KitError, Special, Stack, Subject, TokenBatch


def random_tokens(subject: Subject, rows: int, length: int) -> TokenBatch:
    """Uniform random tokens: no padding, no special tokens."""
    generator = torch.Generator().manual_seed(subject.seed)
    size = parts_of(subject)[0].dims.vocabulary or subject.tokenizer.size
    first = min(len(Special), size - 1)
    ids = torch.randint(first, size, (rows, length), generator=generator)
    features = {"prefix": torch.zeros(rows, length, dtype=torch.bool), "document": torch.zeros_like(ids)}
    return TokenBatch(ids, None, features, right_padded=True)


def parts_of(subject: Subject) -> tuple[Embedding, Stack]:
    """The embedding and the stack of a decoder or an encoder."""
    model = subject.model
    if isinstance(model, DecoderModel):
        return model.decoder.embedding, model.decoder.stack
    if isinstance(model, EncoderModel):
        return model.encoder.embedding, model.encoder.stack
    raise KitError("this measure looks at models of one stack; write family: decoder or family: encoder")


def checked_length(subject: Subject, wanted: int | None) -> int:
    """The requested length, checked against the model's maximum; or that maximum."""
    made_for = subject.recipe.model.length
    if wanted is not None and wanted > made_for:
        raise KitError(f"a length of {wanted} is asked for, and the model is made for {made_for} (model.length)")
    return wanted or made_for
