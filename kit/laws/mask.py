"""Laws of masks: pointwise definition, declared shape, composition and lowering to kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from kit.contracts.mask import Both, Either, Inverse, Mask
from kit.errors import KitError
from kit.laws.assertions import close
from kit.laws.batches import SIDES, layout_of, padding_mask_of, vectors
from kit.laws.law import broken, law
from kit.laws.reference_parts import GapsMask, ReferenceMask
from kit.laws.setting import WIDTH
from kit.laws.subject import Subject
from kit.sequence.attention_context import AttentionContext, MaskFeatures
from kit.sequence.batch_layout import BatchLayout

LENGTH = 11
NUM_MARKED = 4
"""The number of tokens whose features are 1, such as a prefix, a document or global tokens."""


def _mask(subject: Subject) -> Mask:
    mask: Mask = subject.build(subject.settings[0])
    return mask


def features_for(mask: Mask, rows: int, length: int, start: int = 0) -> dict[str, Tensor]:
    """Returns the token features that a mask reads: 1 for the first few tokens, 0 for the rest."""
    marked = (torch.arange(start, start + length) < NUM_MARKED).long()[None].expand(rows, -1)
    return dict.fromkeys(mask.needs, marked)


def dense(mask: Mask, length: int = LENGTH) -> Tensor:
    """Computes the dense mask [Q, K] at once."""
    at = torch.arange(length)
    features = features_for(mask, 1, length)
    allowed = mask.allows(
        at[None, :, None],
        at[None, None, :],
        MaskFeatures(
            {name: feature[:, :, None] for name, feature in features.items()},
            {name: feature[:, None, :] for name, feature in features.items()},
        ),
    )
    return allowed.expand(1, length, length)[0]


@law("mask", "A mask is a function of single pairs: one pair at a time gives the same as all at once.")
def pointwise(subject: Subject) -> None:
    """Computes pairs one by one; a mask that depends on the shape of its arguments breaks this law."""
    mask = _mask(subject)
    dense_mask = dense(mask)
    if dense_mask.dtype != torch.bool:
        broken(f"it returns {dense_mask.dtype}, wanted bool")
    features = features_for(mask, 1, LENGTH)
    for q in range(LENGTH):
        for k in range(LENGTH):
            features_of_pair = MaskFeatures(
                {name: feature[:, q : q + 1, None] for name, feature in features.items()},
                {name: feature[:, None, k : k + 1] for name, feature in features.items()},
            )
            try:
                single = bool(mask.allows(torch.tensor([[[q]]]), torch.tensor([[[k]]]), features_of_pair))
            except KitError:
                continue  # some masks refuse single pairs
            if single != bool(dense_mask[q, k]):
                broken(f"query {q} and key {k}: {single} alone, {bool(dense_mask[q, k])} among all")


@law("mask", "It hides the future if it declares that, and is exactly causal if it declares the causal shape.")
def declared_shape(subject: Subject) -> None:
    """Compares the declarations with the dense mask."""
    mask = _mask(subject)
    dense_mask = dense(mask)
    later = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
    if mask.hides_future and bool((dense_mask & later).any()):
        broken("it declares that it hides the future, and shows some of it")
    if mask.shape == "causal" and not torch.equal(dense_mask, ~later):
        broken("it declares the shape causal, and differs from «no later key»")
    if mask.hides_future and not mask.is_autoregressive:
        broken("it hides the future, and declares that it is not autoregressive")


@law("mask", "Pairs of a prefix do not change when the sequence grows.")
def prefix_consistency(subject: Subject) -> None:
    """Compares the dense masks of two lengths, as incremental decoding requires."""
    mask = _mask(subject)
    if not torch.equal(dense(mask, LENGTH + 9)[:LENGTH, :LENGTH], dense(mask)):
        broken("pairs change when the sequence is longer")


@law("mask", "Masks compose: &, | and ~ of masks are &, | and ~ of their allowed pairs.")
def algebra(subject: Subject) -> None:
    """Composes with a causal mask and one with gaps, in both orders."""
    mask = _mask(subject)
    a = dense(mask)
    for other in (ReferenceMask(), GapsMask()):
        b = dense(other)
        cases: list[tuple[str, Mask, Tensor]] = [
            ("and", mask & other, a & b),
            ("and, swapped", Both(other, mask), a & b),
            ("or", mask | other, a | b),
            ("or, swapped", Either(other, mask), a | b),
            ("not", ~mask, ~a),
            ("not both", Inverse(Both(mask, other)), ~(a & b)),
        ]
        for name, composed, wanted in cases:
            wanted_needs = {*mask.needs, *(() if name == "not" else other.needs)}
            if set(composed.needs) != wanted_needs:
                broken(f"{name}: the composed mask needs {composed.needs}, wanted {sorted(wanted_needs)}")
            if not torch.equal(dense(composed), wanted):
                broken(f"{name} with {type(other).__name__}: differs from the same of what both allow")
            later = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
            if composed.hides_future and bool((wanted & later).any()):
                broken(f"{name} with {type(other).__name__}: declares that it hides the future, and does not")


@law("mask", "A batch without a feature that the mask reads is refused, with the name of the feature.")
def missing_features(subject: Subject) -> None:
    """Checks that a missing feature raises KitError."""
    mask = _mask(subject)
    layout = layout_of(1, 3)
    try:
        _ = AttentionContext(layout, layout, mask).attention_mask
    except KitError as error:
        if not mask.needs or not any(name in str(error) for name in mask.needs):
            raise
        return
    if mask.needs:
        broken(f"it needs {mask.needs}, and a batch without them is not refused")


@law(
    "mask",
    "Every lowering equals the dense mask: causal kernels, dense masks, incremental decoding, padding on either side.",
)
def lowerings(subject: Subject) -> None:
    """Compares the attention mask of the context, and outputs of fused and eager attention."""
    mask = _mask(subject)
    for name, queries, keys, wanted in _layouts(mask):
        context = AttentionContext(queries, keys, mask)
        real = (
            torch.ones(queries.rows, queries.length, dtype=torch.bool)
            if queries.padding_mask is None
            else queries.padding_mask
        )
        allowed = context.attention_mask
        found = torch.ones_like(wanted) if allowed is None else allowed[:, 0].expand_as(wanted)
        if not torch.equal(found & real[..., None], wanted & real[..., None]):
            broken(f"{name}: the attention mask differs from the allowed pairs")
        q, k, v = (
            vectors(queries.rows, 2, each.length, WIDTH, seed=seed) for seed, each in enumerate((queries, keys, keys))
        )
        scores = (q @ k.transpose(-1, -2) * 0.25).masked_fill(~wanted[:, None], float("-inf"))
        weights = scores.softmax(-1).nan_to_num(0.0)
        for implementation, out in (
            ("fused kernel", context.attend(q, k, v, 0.25)),
            ("eager path", context.attend_eager(q, k, v, 0.25)[0]),
        ):
            rows = out.transpose(1, 2)[real]
            close(rows, (weights @ v).transpose(1, 2)[real], f"{name}: the {implementation}")


def _layouts(mask: Mask) -> Iterator[tuple[str, BatchLayout, BatchLayout, Tensor]]:
    """Yields layouts of whole sequences, padded ones and decoding steps, with their dense masks [B, Q, K]."""
    dense_mask = dense(mask)
    whole = layout_of(2, LENGTH, features=features_for(mask, 2, LENGTH))
    yield "whole sequences", whole, whole, dense_mask.expand(2, -1, -1)
    for side in SIDES:
        lengths = (LENGTH - 4, LENGTH)
        padding_mask = padding_mask_of(lengths, side)
        assert padding_mask is not None
        order = (padding_mask.cumsum(1) - 1).clamp(min=0)
        marked: Any = {name: (order < NUM_MARKED).long() for name in mask.needs}
        layout = layout_of(2, LENGTH, padding_mask, features=marked)
        wanted = torch.stack([dense_mask[order[row]][:, order[row]] & padding_mask[row] for row in range(2)])
        yield f"{side} padding", layout, layout, wanted
    if mask.is_autoregressive:
        for start in (NUM_MARKED, LENGTH - 1):
            before = layout_of(2, start, features=features_for(mask, 2, start))
            new = layout_of(2, LENGTH - start, after=before, features=features_for(mask, 2, LENGTH - start, start))
            yield f"from token {start} on", new, before.join(new), dense_mask[start:].expand(2, -1, -1)
