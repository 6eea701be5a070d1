"""Laws of observed attention: observation changes nothing, and fused kernels equal the eager path."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kit.contracts.attention import Attention
from kit.laws.assertions import close, finite, zero
from kit.laws.attention_runner import LONG, SHORT, AttentionInputs, AttentionRunner
from kit.laws.batches import SIDES
from kit.laws.law import broken, law
from kit.laws.subject import Subject
from kit.plugin.component import BuildContext
from kit.sequence.attention_context import AttentionContext
from kit.sequence.observer import AttentionObserver, AttentionRecorder


def _capabilities(subject: Subject) -> Any:
    assert issubclass(subject.component, Attention)
    return subject.component.capabilities


class _ZeroHeads(AttentionObserver):
    """An observer that replaces head outputs by zeros, and counts its calls."""

    calls = 0

    def heads(self, build_context: BuildContext, out_BHQF: Tensor) -> Tensor:
        self.calls += 1
        return torch.zeros_like(out_BHQF)


@law("attention", "Observation changes nothing, and an observer gets weights, or a notice that there are none.")
def observed(subject: Subject) -> None:
    """Checks that weights [B, H, Q, K] are finite, and zero for masked keys, and that outputs do not change."""
    for setting in subject.settings:
        runner = AttentionRunner(subject, setting)
        inputs = runner.inputs((3, SHORT))
        recorder = AttentionRecorder()
        with torch.no_grad():
            close(inputs.real(runner(inputs, recorder)), inputs.real(runner(inputs)), f"{setting.name}, observed")
        name = runner.part.build_context.name
        if not _capabilities(subject).weights:
            if name not in recorder.unseen:
                broken(f"{setting.name}: it declares no weights, and did not notify the observer")
            continue
        if name not in recorder.by_site:
            broken(f"{setting.name}: it declares weights, and the observer got none")
        _check_weights(recorder.by_site[name], runner.context(inputs), inputs, setting.name)


@law(
    "attention",
    "The weights of a query with a visible key sum to one, if the part declares that.",
    lambda subject: (
        None
        if _capabilities(subject).weights and _capabilities(subject).weights_sum_to_one
        else "it declares that its weights do not sum to one"
    ),
)
def weights_sum_to_one(subject: Subject) -> None:
    """Sums the weights of each real query with a visible key."""
    for setting in subject.settings:
        runner = AttentionRunner(subject, setting)
        inputs = runner.inputs((3, SHORT))
        recorder = AttentionRecorder()
        with torch.no_grad():
            runner(inputs, recorder)
        sums = recorder.by_site[runner.part.build_context.name].sum(-1).transpose(1, 2)
        visible = runner.context(inputs).has_visible_key
        checked = (
            torch.ones(sums.shape[:2], dtype=torch.bool)
            if visible is None
            else visible[:, 0, :, 0].expand(sums.shape[:2])
        )
        checked = checked if inputs.padding_mask is None else checked & inputs.padding_mask
        close(sums[checked], torch.ones_like(sums[checked]), f"{setting.name}: the sum of weights")


@law("attention", "Head outputs that an observer replaces are used in the output.")
def replaced_heads(subject: Subject) -> None:
    """Zeroes all heads by an observer, after which a token must not depend on others."""
    for setting in subject.settings:
        runner = AttentionRunner(subject, setting)
        inputs = runner.inputs((SHORT,))
        zero_heads = _ZeroHeads()
        with torch.no_grad():
            first = runner(inputs, zero_heads)
            if not zero_heads.calls:
                if _capabilities(subject).weights:
                    broken(f"{setting.name}: it has weights, and shows no heads to an observer")
                continue
            inputs.x = inputs.x.flip(1)
            zeroed = runner(inputs, zero_heads)
        close(
            zeroed,
            first.flip(1),
            f"{setting.name}: with all heads zeroed, the output of a token still depends on others",
        )


@law("attention", "Fused kernels equal the eager path, with and without masks, for short and long sequences.")
def fused_equals_eager(subject: Subject) -> None:
    """Compares outputs and gradients with those of the eager path, which observation takes."""
    for setting in subject.settings:
        runner = AttentionRunner(subject, setting)
        for lengths, side in [
            ((LONG,), "right"),
            *(((LONG - 77, LONG), side) for side in SIDES),
            ((2, SHORT), "right"),
        ]:
            inputs = runner.inputs(lengths, side)
            what = f"{setting.name}, {side} padding, inputs of {lengths}"
            outs, gradients = zip(
                *(_gradients(runner, inputs, observer) for observer in (None, AttentionRecorder())), strict=True
            )
            close(outs[0], outs[1], what)
            close(gradients[0], gradients[1], f"{what}: the gradient", 1e-8)


def _gradients(
    runner: AttentionRunner, inputs: AttentionInputs, observer: AttentionObserver | None
) -> tuple[Tensor, Tensor]:
    given = AttentionInputs(
        inputs.x.detach().requires_grad_(), inputs.padding_mask, inputs.memory, inputs.memory_padding_mask
    )
    out = inputs.real(runner(given, observer))
    (gradient,) = torch.autograd.grad(out.sin().sum(), given.x)
    return out.detach(), gradient


def _check_weights(weights: Tensor, context: AttentionContext, inputs: AttentionInputs, what: str) -> None:
    wanted = (context.queries.rows, context.queries.length, context.keys.length)
    if weights.dim() != 4 or (weights.shape[0], *weights.shape[2:]) != wanted:
        broken(f"{what}: weights are {list(weights.shape)}, wanted [{wanted[0]}, heads, {wanted[1]}, {wanted[2]}]")
    finite(weights, f"{what}: weights")
    if context.attention_mask is not None:
        hidden = (~context.attention_mask).expand(weights.shape)
        if inputs.padding_mask is not None:
            hidden = hidden & inputs.padding_mask[:, None, :, None]
        zero(weights * hidden, f"{what}: the weight of a masked key")
