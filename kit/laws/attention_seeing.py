"""Laws of what an attention may see: hidden keys, the future, nothing at all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from kit.contracts.attention import Attention
from kit.contracts.mask import Mask
from kit.laws.attending import LONG, SHORT, Attending, Texts
from kit.laws.batches import SIDES, vectors
from kit.laws.comparing import finite, same, zero
from kit.laws.law import broken, law
from kit.laws.subject import Subject


@law("attention", "The output has the shape of the queries, in padded rows and packed, for any number of tokens.")
def shape(subject: Subject) -> None:
    """Rows of one token, of several, and of none."""
    for setting in subject.settings:
        attending = Attending(subject, setting)
        for lengths in ((1,), (SHORT,), (3, SHORT, 1), (0, 2)):
            texts = attending.texts(lengths)
            for packed in (False, True):
                out = attending(texts, packed=packed)
                wanted = attending.scope(texts, packed=packed).queries.unpad(texts.x).shape
                if out.shape != wanted:
                    broken(f"{setting.name}, texts of {lengths}: gives {list(out.shape)}, wanted {list(wanted)}")
                finite(out, f"{setting.name}, texts of {lengths}")
                if out.dtype != texts.x.dtype:
                    broken(f"{setting.name}: gives {out.dtype} for {texts.x.dtype}")


@law("attention", "Padding has no influence on what real tokens get, nor any gradient, wherever it stands.")
def hidden_keys(subject: Subject) -> None:
    """Padding is replaced by other numbers, and its gradient is looked at."""
    for setting in subject.settings:
        attending = Attending(subject, setting)
        for lengths, side in [((4, SHORT, 2), side) for side in SIDES] + [((LONG - 90, LONG), side) for side in SIDES]:
            texts = attending.texts(lengths, side)
            before = texts.real(attending(texts))
            texts.x, hidden = _spoiled(texts.x, texts.valid)
            where, kept = hidden, texts.x
            if texts.memory is not None:
                texts.memory, where = _spoiled(texts.memory, texts.memory_valid)
                kept = texts.memory
            kept.requires_grad_()
            after = texts.real(attending(texts))
            what = f"{setting.name}, {side} padding, texts of {lengths}"
            same(after, before, f"{what}: real tokens after padding was given other numbers")
            (after * vectors(*after.shape, seed=3)).sum().backward()
            if kept.grad is None:
                broken(f"{what}: no gradient reaches what is attended to")
            zero(kept.grad[where], f"{what}: the gradient of padding")


@law(
    "attention",
    "A key that a mask hides from a query has no influence on it: its gradient is exactly zero.",
    lambda subject: None if _abilities(subject).masks and _abilities(subject).reads_self else "it honours no mask",
)
def masked_pairs(subject: Subject) -> None:
    """The gradient of each query's output for each key."""
    for setting in subject.settings:
        if setting.mask is None:
            continue
        attending = Attending(subject, setting)
        texts = attending.texts((SHORT,))
        allowed = attending.scope(texts).allowed
        assert allowed is not None
        x = texts.x.requires_grad_()
        out = attending(texts)
        for query in range(SHORT):
            slopes = torch.autograd.grad(out[0, query].sum(), x, retain_graph=True)[0][0].abs().amax(-1)
            hidden = ~allowed[0, 0, query]
            hidden[query] = False  # a query has influence on itself by way of its own query vector
            zero(slopes * hidden, f"{setting.name}: the influence of each key on query {query}")


@law(
    "attention",
    "Nothing that comes later changes what a query gets, bit for bit, under a mask that hides the future.",
    lambda subject: None if any(_hides(setting.mask) for setting in subject.settings) else "it honours no causal mask",
)
def causality(subject: Subject) -> None:
    """The future is replaced; the past must not move by a bit."""
    for setting in subject.settings:
        if not _hides(setting.mask):
            continue
        attending = Attending(subject, setting)
        for length, places in ((SHORT, range(1, SHORT)), (LONG, (1, 63, 65, 130, LONG - 1))):
            texts = attending.texts((length, length))
            with torch.no_grad():
                before = attending(texts)
                for place in places:
                    x = texts.x.clone()
                    x[:, place:] = 3.0 * vectors(2, length - place, x.shape[-1], seed=5)
                    after = attending(Texts(x))
                    same(
                        after[:, :place], before[:, :place], f"{setting.name}, {length} tokens, changed from {place} on"
                    )
                    if torch.equal(after[:, place:], before[:, place:]):
                        broken(f"{setting.name}: a token makes no difference to itself")


@law(
    "attention",
    "A query that may see nothing gets zeros, apart from biases, and all gradients are finite.",
    lambda subject: (
        None
        if "pairs" in _abilities(subject).masks or _abilities(subject).reads_memory
        else "a real query of it always sees itself"
    ),
)
def blind_queries(subject: Subject) -> None:
    """Parameters called bias are set to zero, so that nothing but what was seen can come out."""
    for setting in subject.settings:
        attending = Attending(subject, setting)
        if setting.memory:
            texts = attending.texts((3, SHORT), memory=(5, 0))
        elif setting.mask is not None and not attending.scope(attending.texts((SHORT,))).allowed[0, 0].any(-1).all():  # type: ignore[index]
            texts = attending.texts((SHORT, SHORT))
        else:
            continue
        with torch.no_grad():
            for name, bias in attending.part.named_parameters():
                if name.endswith("bias"):
                    bias.zero_()
        named: list[tuple[str, Tensor]] = list(attending.part.named_parameters())
        texts.x.requires_grad_()
        out = attending(texts)
        seeing = attending.scope(texts).seeing
        assert seeing is not None
        zero(out[~seeing[:, 0, :, 0].expand(out.shape[:2])], f"{setting.name}: queries that see nothing")
        out.square().sum().backward()
        for name, parameter in [("the queries", texts.x), *named]:
            if parameter.grad is not None:
                finite(parameter.grad, f"{setting.name}: the gradient of {name}")


@law(
    "attention",
    "Every place of a position that it says it makes use of makes a difference.",
    lambda subject: None if _abilities(subject).positions and _abilities(subject).reads_self else "it uses no position",
)
def positions_count(subject: Subject) -> None:
    """One place at a time, against none."""
    for setting in subject.settings:
        if not setting.places:
            continue
        for place in sorted(setting.places):
            without, beside = (
                Attending(subject, replace(setting, places=frozenset(places))) for places in ((), (place,))
            )
            texts = without.texts((SHORT,))
            with torch.no_grad():
                if torch.allclose(without(texts), beside(texts), atol=1e-6):
                    broken(f"{setting.name}: a position that uses {place!r} makes no difference")


def _spoiled(x: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor]:
    """The same with large numbers where padding is, and where that is."""
    hidden = torch.zeros(x.shape[:2], dtype=torch.bool) if valid is None else ~valid
    return x.detach().masked_scatter(hidden[..., None].expand_as(x), 50.0 * vectors(*x.shape, seed=4)), hidden


def _abilities(subject: Subject) -> Any:
    assert issubclass(subject.component, Attention)
    return subject.component.abilities


def _hides(mask: Mask | None) -> bool:
    return mask is not None and mask.hides_future
