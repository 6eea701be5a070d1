"""Texts of a wanted length for a model to read, and the parts of the model that read them."""

from __future__ import annotations

import torch

from kit import DecoderModel, Embedding, EncoderModel, KitError, Special, Stack, Subject, Tokens


def random_tokens(subject: Subject, rows: int, length: int) -> Tokens:
    """Texts of real tokens drawn at random: no padding, no special tokens, nothing that is easy to foresee."""
    generator = torch.Generator().manual_seed(subject.seed)
    size = parts_of(subject)[0].dims.vocabulary or subject.tokenizer.size
    first = min(len(Special), size - 1)
    ids = torch.randint(first, size, (rows, length), generator=generator)
    facts = {"prefix": torch.zeros(rows, length, dtype=torch.bool), "document": torch.zeros_like(ids)}
    return Tokens(ids, None, facts, right_padded=True)


def parts_of(subject: Subject) -> tuple[Embedding, Stack]:
    """The embedding and the stack of a decoder or an encoder."""
    model = subject.model
    if isinstance(model, DecoderModel):
        return model.decoder.embedding, model.decoder.stack
    if isinstance(model, EncoderModel):
        return model.encoder.embedding, model.encoder.stack
    raise KitError("this measure looks at models of one stack; write family: decoder or family: encoder")


def longest(subject: Subject, wanted: int | None) -> int:
    """The length that is looked at: what was asked for, or what the model is made for."""
    made_for = subject.recipe.model.length
    if wanted is not None and wanted > made_for:
        raise KitError(f"a length of {wanted} is asked for, and the model is made for {made_for} (model.length)")
    return wanted or made_for
