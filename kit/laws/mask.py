"""Laws of masks: pairs decide, one by one, and every way in which a mask is lowered tells the same truth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from kit.contracts.mask import Both, Either, Facts, Inverse, Mask
from kit.errors import KitError
from kit.laws.batches import SIDES, layout_of, valid_of, vectors
from kit.laws.comparing import close
from kit.laws.law import broken, law
from kit.laws.setting import WIDTH
from kit.laws.subject import Subject
from kit.laws.surroundings import Gaps, PlainMask
from kit.layout import Layout
from kit.scope import Scope

LENGTH = 11
FIRST = 4
"""How many tokens have facts of their own: a prefix, a document, global tokens, whatever a mask asks for."""


def _mask(subject: Subject) -> Mask:
    mask: Mask = subject.build(subject.settings[0])
    return mask


def facts_for(mask: Mask, rows: int, length: int, start: int = 0) -> dict[str, Tensor]:
    """1 for the first few tokens and 0 for the rest, under every name that the mask needs."""
    marked = (torch.arange(start, start + length) < FIRST).long()[None].expand(rows, -1)
    return dict.fromkeys(mask.needs, marked)


def dense(mask: Mask, length: int = LENGTH) -> Tensor:
    """[Q, K], asked all at once."""
    at = torch.arange(length)
    facts = facts_for(mask, 1, length)
    asked = mask.allows(
        at[None, :, None],
        at[None, None, :],
        Facts(
            {name: fact[:, :, None] for name, fact in facts.items()},
            {name: fact[:, None, :] for name, fact in facts.items()},
        ),
    )
    return asked.expand(1, length, length)[0]


@law("mask", "Asked for each pair by itself, a mask says the same as asked for all at once.")
def pair_by_pair(subject: Subject) -> None:
    """A slow loop; a mask that looks at the shape of what it is given is caught here."""
    mask = _mask(subject)
    truth = dense(mask)
    if truth.dtype != torch.bool:
        broken(f"it answers in {truth.dtype}, wanted true and false")
    facts = facts_for(mask, 1, LENGTH)
    for q in range(LENGTH):
        for k in range(LENGTH):
            about = Facts(
                {name: fact[:, q : q + 1, None] for name, fact in facts.items()},
                {name: fact[:, None, k : k + 1] for name, fact in facts.items()},
            )
            try:
                said = bool(mask.allows(torch.tensor([[[q]]]), torch.tensor([[[k]]]), about))
            except KitError:
                continue  # a single pair may be what no text can be read in
            if said != bool(truth[q, k]):
                broken(f"query {q} and key {k}: {said} alone, {bool(truth[q, k])} among all")


@law("mask", "It hides the future where it says so, and is exactly causal where it says that.")
def declared_shape(subject: Subject) -> None:
    """Against the dense truth."""
    mask = _mask(subject)
    truth = dense(mask)
    later = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
    if mask.hides_future and bool((truth & later).any()):
        broken("it declares that it hides the future, and shows some of it")
    if mask.shape == "causal" and not torch.equal(truth, ~later):
        broken("it declares the shape causal, and differs from «no later key»")
    if mask.hides_future and not mask.writable:
        broken("it hides the future, and declares that no text can be written under it")


@law("mask", "A text that grows keeps what it had: earlier tokens see no more and no less of each other.")
def growing(subject: Subject) -> None:
    """So that a text can be read step by step."""
    mask = _mask(subject)
    if not torch.equal(dense(mask, LENGTH + 9)[:LENGTH, :LENGTH], dense(mask)):
        broken("pairs of a text are judged otherwise when the text is longer")


@law("mask", "Masks compose: and, or, not of two masks are and, or, not of what they allow.")
def algebra(subject: Subject) -> None:
    """With a causal mask and one with gaps, on either side."""
    mask = _mask(subject)
    a = dense(mask)
    for other in (PlainMask(), Gaps()):
        b = dense(other)
        cases: list[tuple[str, Mask, Tensor]] = [
            ("and", mask & other, a & b),
            ("and, turned", Both(other, mask), a & b),
            ("or", mask | other, a | b),
            ("or, turned", Either(other, mask), a | b),
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


@law("mask", "A batch that does not bring the facts it needs is told which one is missing.")
def missing_facts(subject: Subject) -> None:
    """Never a crash."""
    mask = _mask(subject)
    layout = layout_of(1, 3)
    try:
        _ = Scope(layout, layout, mask).allowed
    except KitError as error:
        if not mask.needs or not any(name in str(error) for name in mask.needs):
            raise
        return
    if mask.needs:
        broken(f"it needs {mask.needs}, and a batch without them is not refused")


@law("mask", "Every lowering equals the dense truth: causal kernels, dense masks, steps, with padding on either side.")
def lowerings(subject: Subject) -> None:
    """What a scope makes of it, and what torch's kernel makes of that."""
    mask = _mask(subject)
    for name, queries, keys, wanted in _views(mask):
        scope = Scope(queries, keys, mask)
        real = torch.ones(queries.rows, queries.length, dtype=torch.bool) if queries.valid is None else queries.valid
        allowed = scope.allowed
        found = torch.ones_like(wanted) if allowed is None else allowed[:, 0].expand_as(wanted)
        if not torch.equal(found & real[..., None], wanted & real[..., None]):
            broken(f"{name}: the dense mask differs from what pairs are allowed")
        q, k, v = (
            vectors(queries.rows, 2, each.length, WIDTH, seed=seed) for seed, each in enumerate((queries, keys, keys))
        )
        scores = (q @ k.transpose(-1, -2) * 0.25).masked_fill(~wanted[:, None], float("-inf"))
        weights = scores.softmax(-1).nan_to_num(0.0)
        for way, out in (
            ("kernel", scope.attend(q, k, v, 0.25)),
            ("plain path", scope.attend_plainly(q, k, v, 0.25)[0]),
        ):
            rows = out.transpose(1, 2)[real]
            close(rows, (weights @ v).transpose(1, 2)[real], f"{name}: the {way}")


def _views(mask: Mask) -> Iterator[tuple[str, Layout, Layout, Tensor]]:
    """Ways to look at a text: whole, padded, and in steps; with the pairs [B, Q, K] that are allowed in each."""
    truth = dense(mask)
    whole = layout_of(2, LENGTH, facts=facts_for(mask, 2, LENGTH))
    yield "whole texts", whole, whole, truth.expand(2, -1, -1)
    for side in SIDES:
        lengths = (LENGTH - 4, LENGTH)
        valid = valid_of(lengths, side)
        assert valid is not None
        order = (valid.cumsum(1) - 1).clamp(min=0)
        marked: Any = {name: (order < FIRST).long() for name in mask.needs}
        layout = layout_of(2, LENGTH, valid, facts=marked)
        wanted = torch.stack([truth[order[row]][:, order[row]] & valid[row] for row in range(2)])
        yield f"{side} padding", layout, layout, wanted
    if mask.writable:
        for start in (FIRST, LENGTH - 1):
            before = layout_of(2, start, facts=facts_for(mask, 2, start))
            new = layout_of(2, LENGTH - start, after=before, facts=facts_for(mask, 2, LENGTH - start, start))
            yield f"from token {start} on", new, before.join(new), truth[start:].expand(2, -1, -1)
