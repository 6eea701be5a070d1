"""Laws of stacks: shape, padding, causality, incremental decoding and observation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from kit.contracts.stack import EncoderOutput
from kit.laws.assertions import close, finite, same
from kit.laws.batches import SIDES, layout_of, padding_mask_of, piece_sizes, slices, vectors
from kit.laws.law import broken, law
from kit.laws.setting import MEMORY, WIDTH, Setting
from kit.laws.shared_beams import compare_shared_beams
from kit.laws.subject import Subject
from kit.sequence.batch_layout import BatchLayout
from kit.sequence.cache import Cache
from kit.sequence.observer import AttentionObserver, AttentionRecorder

LENGTH = 7
MEMORY_LENGTHS = (3, 5, 4)


class StackRunner:
    """A stack that is built in a setting, with an encoder output of three rows for cross-attention."""

    def __init__(self, subject: Subject, setting: Setting) -> None:
        self.part: Any = subject.build(setting)
        self.setting = setting

    def memory(self, rows: Sequence[int], side: Any = "right", packed: bool = False) -> EncoderOutput | None:
        """Returns the encoder output of rows; None without cross-attention."""
        if not self.setting.memory:
            return None
        lengths = [MEMORY_LENGTHS[row] for row in rows]
        x = vectors(3, max(MEMORY_LENGTHS), MEMORY, seed=7)
        encoder_output = torch.stack(
            [x[row] if side == "right" else x[row].roll(max(MEMORY_LENGTHS) - MEMORY_LENGTHS[row], 0) for row in rows]
        )
        encoder_output = encoder_output[:, : max(lengths)] if side == "right" else encoder_output[:, -max(lengths) :]
        layout = layout_of(len(rows), max(lengths), padding_mask_of(lengths, side))
        layout = layout.packed() if packed else layout
        return EncoderOutput(layout.unpad(encoder_output), layout)

    def __call__(
        self,
        x: Tensor,
        layout: BatchLayout,
        memory: EncoderOutput | None = None,
        observer: AttentionObserver | None = None,
    ) -> Tensor:
        """Returns the output for full sequences, [B, L, D] or packed [N, D]."""
        out: Tensor = self.part(
            self.part.embed(layout.unpad(x), layout.packed_positions), layout, memory, None, observer
        )
        return out

    def steps(
        self, x: Tensor, padding_mask: Tensor | None, sizes: Sequence[int], memory: EncoderOutput | None
    ) -> Tensor:
        """Returns the output [B, L, D] for sequences in pieces with a cache."""
        cache, past, outs = self.part.start(), None, []
        for piece in slices(x.shape[1], sizes):
            layout = layout_of(
                x.shape[0], piece.stop - piece.start, None if padding_mask is None else padding_mask[:, piece], past
            )
            past = layout if past is None else past.join(layout)
            outs.append(self.part(self.part.embed(x[:, piece], layout.positions), layout, memory, cache))
        return torch.cat(outs, 1)


@law("stack", "The output has the shape and dtype of the input, padded and packed.")
def shape(subject: Subject) -> None:
    """Runs single tokens, padded rows and rows without tokens."""
    for setting in subject.settings:
        runner = StackRunner(subject, setting)
        for lengths in ((1, 1, 1), (3, LENGTH, 0)):
            layout = layout_of(3, max(lengths), padding_mask_of(lengths))
            for packed in (False, True):
                form = layout.packed() if packed else layout
                x = vectors(3, max(lengths), WIDTH)
                out, wanted = runner(x, form, runner.memory(range(3), packed=packed)), form.unpad(x)
                if out.shape != wanted.shape or out.dtype != wanted.dtype:
                    broken(f"{setting.name}: gives {list(out.shape)} {out.dtype}, wanted {list(wanted.shape)}")
                finite(out, f"{setting.name}, texts of {lengths}")


@law("stack", "A sequence gets the same output alone and in a batch, padded on either side, and packed.")
def padding_invariance(subject: Subject) -> None:
    """Compares batches with packed and single sequences; encoder outputs are padded too."""
    lengths = (3, LENGTH, 1)
    for setting in subject.settings:
        runner = StackRunner(subject, setting)
        for side in SIDES:
            padding_mask = padding_mask_of(lengths, side)
            assert padding_mask is not None
            x = vectors(3, LENGTH, WIDTH).masked_scatter(
                ~padding_mask[..., None], 50.0 * vectors(3, LENGTH, WIDTH, seed=4)
            )
            layout = layout_of(3, LENGTH, padding_mask)
            batched = runner(x, layout, runner.memory(range(3), side))
            packed = runner(x, layout.packed(), runner.memory(range(3), side, packed=True))
            close(packed, batched[padding_mask], f"{setting.name}, {side} padding, packed")
            for row in range(3):
                alone = runner(x[row][padding_mask[row]][None], layout_of(1, lengths[row]), runner.memory([row]))[0]
                close(batched[row][padding_mask[row]], alone, f"{setting.name}, {side} padding, row {row} of {lengths}")


@law("stack", "In a decoder, later tokens do not change the output of earlier ones, bit for bit.")
def causality(subject: Subject) -> None:
    """Replaces tokens from every position on, and compares earlier outputs."""
    for setting in subject.settings:
        if not setting.causal:
            continue
        runner = StackRunner(subject, setting)
        x, layout, memory = vectors(3, LENGTH, WIDTH), layout_of(3, LENGTH), runner.memory(range(3))
        with torch.no_grad():
            before = runner(x, layout, memory)
            for start in range(1, LENGTH):
                changed = x.clone()
                changed[:, start:] = vectors(3, LENGTH - start, WIDTH, seed=8)
                after = runner(changed, layout, memory)
                same(after[:, :start], before[:, :start], f"{setting.name}, changed from {start} on")
                if torch.equal(after[:, start:], before[:, start:]):
                    broken(f"{setting.name}: tokens make no difference")


@law("stack", "Incremental decoding with a cache equals one pass: token by token, in pieces, padded on either side.")
def incremental_decoding(subject: Subject) -> None:
    """Compares decoding in pieces with one pass of a decoder."""
    for setting in subject.settings:
        if not setting.causal:
            continue
        runner = StackRunner(subject, setting)
        x = vectors(3, LENGTH, WIDTH)
        for side in SIDES:
            padding_mask = padding_mask_of((4, LENGTH, 1), side)
            memory = runner.memory(range(3), side)
            with torch.no_grad():
                full = runner(x, layout_of(3, LENGTH, padding_mask), memory)
                for sizes in piece_sizes(LENGTH):
                    found = runner.steps(x, padding_mask, sizes, memory)
                    close(found[padding_mask], full[padding_mask], f"{setting.name}, {side} padding, pieces of {sizes}")


@law("stack", "After a reorder of the cache each row continues as if it was decoded alone.")
def cache_reorder(subject: Subject) -> None:
    """Reorders the cache after four tokens: one row occurs twice."""
    for setting in subject.settings:
        if not setting.causal:
            continue
        runner = StackRunner(subject, setting)
        x, memory, rows = vectors(3, LENGTH, WIDTH), runner.memory(range(3)), torch.tensor([2, 0, 2, 1])
        with torch.no_grad():
            full = runner(x, layout_of(3, LENGTH), memory)
            cache, first = runner.part.start(), layout_of(3, 4)
            runner.part(runner.part.embed(x[:, :4], first.positions), first, memory, cache)
            cache.reorder(rows)
            later = layout_of(4, LENGTH - 4, after=first.reorder(rows))
            memory = None if memory is None else memory.reorder(rows)
            found = runner.part(runner.part.embed(x[rows, 4:], later.positions), later, memory, cache)
        close(found, full[rows, 4:], f"{setting.name}, after a reorder")


def _not_shared(subject: Subject) -> str | None:
    runners = [StackRunner(subject, setting) for setting in subject.settings if setting.causal]
    shared = any(runner.part.supports_shared_beams() for runner in runners)
    return None if shared else "it does not declare that beams may share a cache row"


@law(
    "stack",
    "Beams that share the cache row of their input get the output that each gets in a row of its own.",
    _not_shared,
)
def shared_beams(subject: Subject) -> None:
    """Decodes as a beam search does, and evicts the tokens that no beam descends from."""
    for setting in subject.settings:
        runner = StackRunner(subject, setting)
        if not setting.causal or not runner.part.supports_shared_beams():
            continue
        memory = runner.memory(range(3))

        def forward(
            x: Tensor,
            queries: BatchLayout,
            keys: BatchLayout,
            rows: Tensor,
            cache: Cache,
            part: Any = runner.part,
            memory: EncoderOutput | None = memory,
        ) -> Tensor:
            chosen = None if memory is None else memory.reorder(rows)
            out: Tensor = part(part.embed(x, queries.positions), queries, chosen, cache)
            return out

        compare_shared_beams(forward, runner.part.start, setting.name)


@law("stack", "Observation changes nothing.")
def observed(subject: Subject) -> None:
    """Compares observed and unobserved outputs of a padded batch."""
    for setting in subject.settings:
        runner = StackRunner(subject, setting)
        padding_mask = padding_mask_of((3, LENGTH, 1))
        x, layout, memory = vectors(3, LENGTH, WIDTH), layout_of(3, LENGTH, padding_mask), runner.memory(range(3))
        with torch.no_grad():
            unobserved, observed_output = runner(x, layout, memory), runner(x, layout, memory, AttentionRecorder())
        close(observed_output[padding_mask], unobserved[padding_mask], setting.name)
