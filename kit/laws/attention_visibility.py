"""Laws of attention: padding, masks, causality, fully masked queries and positions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from kit.contracts.attention import Attention
from kit.contracts.mask import Mask
from kit.laws.assertions import finite, same, zero
from kit.laws.attention_runner import LONG, SHORT, AttentionInputs, AttentionRunner
from kit.laws.batches import SIDES, vectors
from kit.laws.law import broken, law
from kit.laws.subject import Subject


@law("attention", "The output has the shape of the queries, in padded rows and packed, for any number of tokens.")
def shape(subject: Subject) -> None:
    """Runs rows of one token, of several and of none."""
    for setting in subject.settings:
        runner = AttentionRunner(subject, setting)
        for lengths in ((1,), (SHORT,), (3, SHORT, 1), (0, 2)):
            inputs = runner.inputs(lengths)
            for packed in (False, True):
                out = runner(inputs, packed=packed)
                wanted = runner.context(inputs, packed=packed).queries.unpad(inputs.x).shape
                if out.shape != wanted:
                    broken(f"{setting.name}, inputs of {lengths}: gives {list(out.shape)}, wanted {list(wanted)}")
                finite(out, f"{setting.name}, inputs of {lengths}")
                if out.dtype != inputs.x.dtype:
                    broken(f"{setting.name}: gives {out.dtype} for {inputs.x.dtype}")


@law("attention", "Padding has no influence on real tokens and gets no gradient, wherever it is.")
def padded_keys(subject: Subject) -> None:
    """Replaces padding by large values, and checks that its gradient is zero."""
    for setting in subject.settings:
        runner = AttentionRunner(subject, setting)
        for lengths, side in [((4, SHORT, 2), side) for side in SIDES] + [((LONG - 90, LONG), side) for side in SIDES]:
            inputs = runner.inputs(lengths, side)
            before = inputs.real(runner(inputs))
            inputs.x, hidden = _with_large_padding(inputs.x, inputs.padding_mask)
            padding, keys = hidden, inputs.x
            if inputs.memory is not None:
                inputs.memory, padding = _with_large_padding(inputs.memory, inputs.memory_padding_mask)
                keys = inputs.memory
            keys.requires_grad_()
            after = inputs.real(runner(inputs))
            what = f"{setting.name}, {side} padding, inputs of {lengths}"
            same(after, before, f"{what}: real tokens after padding got other values")
            (after * vectors(*after.shape, seed=3)).sum().backward()
            if keys.grad is None:
                broken(f"{what}: no gradient reaches the keys and values")
            zero(keys.grad[padding], f"{what}: the gradient of padding")


@law(
    "attention",
    "A key that is masked for a query has no influence on it: its gradient is exactly zero.",
    lambda subject: (
        None if _capabilities(subject).masks and _capabilities(subject).reads_self else "it supports no mask"
    ),
)
def masked_keys(subject: Subject) -> None:
    """Computes the gradient of the output of each query with respect to each key."""
    for setting in subject.settings:
        if setting.mask is None:
            continue
        runner = AttentionRunner(subject, setting)
        inputs = runner.inputs((SHORT,))
        allowed = runner.context(inputs).attention_mask
        assert allowed is not None
        x = inputs.x.requires_grad_()
        out = runner(inputs)
        for query in range(SHORT):
            influence = torch.autograd.grad(out[0, query].sum(), x, retain_graph=True)[0][0].abs().amax(-1)
            hidden = ~allowed[0, 0, query]
            hidden[query] = False  # a token influences its own output by its query vector
            zero(influence * hidden, f"{setting.name}: the influence of each key on query {query}")


@law(
    "attention",
    "Under a causal mask, later tokens do not change the output of a query, bit for bit.",
    lambda subject: (
        None if any(_is_causal(setting.mask) for setting in subject.settings) else "it supports no causal mask"
    ),
)
def causality(subject: Subject) -> None:
    """Replaces later tokens, and compares the outputs of earlier ones bit for bit."""
    for setting in subject.settings:
        if not _is_causal(setting.mask):
            continue
        runner = AttentionRunner(subject, setting)
        for length, starts in ((SHORT, range(1, SHORT)), (LONG, (1, 63, 65, 130, LONG - 1))):
            inputs = runner.inputs((length, length))
            with torch.no_grad():
                before = runner(inputs)
                for start in starts:
                    x = inputs.x.clone()
                    x[:, start:] = 3.0 * vectors(2, length - start, x.shape[-1], seed=5)
                    after = runner(AttentionInputs(x))
                    same(
                        after[:, :start], before[:, :start], f"{setting.name}, {length} tokens, changed from {start} on"
                    )
                    if torch.equal(after[:, start:], before[:, start:]):
                        broken(f"{setting.name}: a token makes no difference to itself")


@law(
    "attention",
    "A fully masked query gets zeros, apart from biases, and all gradients are finite.",
    lambda subject: (
        None
        if "pairs" in _capabilities(subject).masks or _capabilities(subject).reads_memory
        else "its real queries always see themselves"
    ),
)
def fully_masked_queries(subject: Subject) -> None:
    """Zeroes biases, so that the output only depends on visible keys."""
    for setting in subject.settings:
        runner = AttentionRunner(subject, setting)
        if setting.memory:
            inputs = runner.inputs((3, SHORT), memory=(5, 0))
        elif setting.mask is not None and _has_fully_masked_query(runner):
            inputs = runner.inputs((SHORT, SHORT))
        else:
            continue
        with torch.no_grad():
            for name, bias in runner.part.named_parameters():
                if name.endswith("bias"):
                    bias.zero_()
        named: list[tuple[str, Tensor]] = list(runner.part.named_parameters())
        inputs.x.requires_grad_()
        out = runner(inputs)
        visible = runner.context(inputs).has_visible_key
        assert visible is not None
        zero(out[~visible[:, 0, :, 0].expand(out.shape[:2])], f"{setting.name}: fully masked queries")
        out.square().sum().backward()
        for name, parameter in [("the queries", inputs.x), *named]:
            if parameter.grad is not None:
                finite(parameter.grad, f"{setting.name}: the gradient of {name}")


@law(
    "attention",
    "Every location of positional encodings that it supports makes a difference.",
    lambda subject: (
        None if _capabilities(subject).positions and _capabilities(subject).reads_self else "it supports no position"
    ),
)
def position_methods(subject: Subject) -> None:
    """Compares each location by itself with none."""
    for setting in subject.settings:
        if not setting.locations:
            continue
        for location in sorted(setting.locations):
            without, with_position = (
                AttentionRunner(subject, replace(setting, locations=frozenset(locations)))
                for locations in ((), (location,))
            )
            inputs = without.inputs((SHORT,))
            with torch.no_grad():
                if torch.allclose(without(inputs), with_position(inputs), atol=1e-6):
                    broken(f"{setting.name}: a position that uses {location!r} makes no difference")


def _with_large_padding(x: Tensor, padding_mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Replaces padding by large values; returns the tensor [B, L, D] and the mask [B, L] of padding."""
    hidden = torch.zeros(x.shape[:2], dtype=torch.bool) if padding_mask is None else ~padding_mask
    return x.detach().masked_scatter(hidden[..., None].expand_as(x), 50.0 * vectors(*x.shape, seed=4)), hidden


def _capabilities(subject: Subject) -> Any:
    assert issubclass(subject.component, Attention)
    return subject.component.capabilities


def _is_causal(mask: Mask | None) -> bool:
    return mask is not None and mask.hides_future


def _has_fully_masked_query(runner: AttentionRunner) -> bool:
    """Whether some query of a sequence without padding is fully masked."""
    mask = runner.context(runner.inputs((SHORT,))).attention_mask
    return mask is not None and not bool(mask[0, 0].any(-1).all())
