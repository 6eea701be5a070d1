"""Laws of attention: a sequence gets the same output alone, in a batch, padded, packed and token by token."""

from __future__ import annotations

import torch

from kit.contracts.attention import Attention
from kit.laws.assertions import close, finite
from kit.laws.attention_runner import LONG, SHORT, AttentionInputs, AttentionRunner, IncrementalRunner
from kit.laws.batches import SIDES, piece_sizes
from kit.laws.law import law
from kit.laws.subject import Subject


@law("attention", "A sequence gets the same output alone and beside longer ones, padded on the left or on the right.")
def padding_invariance(subject: Subject) -> None:
    """Compares each row of a padded batch with the same sequence alone."""
    for setting in subject.settings:
        runner = AttentionRunner(subject, setting)
        for lengths in ((3, SHORT, 1), (LONG - 77, LONG)):
            for side in SIDES:
                inputs = runner.inputs(lengths, side)
                with torch.no_grad():
                    batched = runner(inputs)
                    for row in range(len(lengths)):
                        alone = _alone(inputs, row)
                        found = batched[row] if inputs.padding_mask is None else batched[row][inputs.padding_mask[row]]
                        close(found, runner(alone)[0], f"{setting.name}, {side} padding, row {row} of {lengths}")


@law("attention", "Each row of a batch gets the output that it gets alone.")
def batch_invariance(subject: Subject) -> None:
    """Compares each row of a batch without padding with the same row alone."""
    for setting in subject.settings:
        runner = AttentionRunner(subject, setting)
        inputs = runner.inputs((SHORT, SHORT, SHORT), memory=(4, 4, 4))
        with torch.no_grad():
            batched = runner(inputs)
            for row in range(3):
                single = runner(inputs.rows(torch.tensor([row])))[0]
                close(batched[row], single, f"{setting.name}, row {row}")


@law("attention", "Packed sequences get the same output as padded ones.")
def packed_equals_padded(subject: Subject) -> None:
    """Compares packed and padded outputs, also of a row without real tokens."""
    for setting in subject.settings:
        runner = AttentionRunner(subject, setting)
        for lengths in ((3, SHORT, 0), (LONG - 77, LONG)):
            for side in SIDES:
                inputs = runner.inputs(lengths, side)
                with torch.no_grad():
                    padded, found = runner(inputs), runner(inputs, packed=True)
                what = f"{setting.name}, {side} padding, inputs of {lengths}"
                finite(padded, what)
                close(found, inputs.real(padded), what)


def _alone(inputs: AttentionInputs, row: int) -> AttentionInputs:
    """Returns one row without its padding."""
    x, memory = inputs.x[row], None if inputs.memory is None else inputs.memory[row]
    x = x if inputs.padding_mask is None else x[inputs.padding_mask[row]]
    if memory is not None and inputs.memory_padding_mask is not None:
        memory = memory[inputs.memory_padding_mask[row]]
    return AttentionInputs(x[None], None, None if memory is None else memory[None])


def _not_incremental(subject: Subject) -> str | None:
    assert issubclass(subject.component, Attention)
    if not subject.component.capabilities.incremental:
        return "it does not support incremental decoding"
    return None if any(setting.causal for setting in subject.settings) else "it has no setting in a decoder"


@law(
    "attention",
    "Incremental decoding with a cache equals one pass: token by token, in pieces, padded on either side.",
    _not_incremental,
)
def incremental_decoding(subject: Subject) -> None:
    """Compares with one pass, also with gradients, which caches handle differently."""
    for setting in subject.settings:
        if not setting.causal:
            continue
        runner = AttentionRunner(subject, setting)
        for lengths in ((SHORT,), (4, SHORT, 1), (LONG - 77, LONG)):
            for side in SIDES:
                inputs = runner.inputs(lengths, side)
                for sizes in piece_sizes(max(lengths)):
                    what = f"{setting.name}, {side} padding, inputs of {lengths} in pieces of {sizes}"
                    with torch.no_grad():
                        full = inputs.real(runner(inputs))
                        close(inputs.real(runner.in_steps(inputs, sizes)), full, what)
                    if max(lengths) == SHORT:
                        found = inputs.real(runner.in_steps(inputs, sizes))
                        close(found, full, f"{what}, with gradients")


@law("attention", "After a reorder of the cache each row continues as if it was decoded alone.", _not_incremental)
def cache_reorder(subject: Subject) -> None:
    """Reorders the cache twice in a row: a row occurs twice, another is dropped, and the order changes."""
    for setting in subject.settings:
        if not setting.causal:
            continue
        runner = AttentionRunner(subject, setting)
        inputs = runner.inputs((SHORT, SHORT, SHORT), memory=(3, 6, 5))
        with torch.no_grad():
            full = runner(inputs)
            run = IncrementalRunner(runner, inputs)
            run.step(inputs.x[:, :3])
            rows = torch.tensor([2, 0, 2, 1])
            run.reorder(rows)
            run.step(inputs.x[rows, 3:4])
            chosen = torch.tensor([3, 0])
            run.reorder(chosen)
            rows = rows[chosen]
            found = run.step(inputs.x[rows, 4:])
        close(found, full[rows, 4:], f"{setting.name}, after a reorder")
