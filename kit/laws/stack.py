"""Laws of stacks: what a model relies on, whatever its layers are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from kit.contracts.stack import Memory
from kit.laws.batches import SIDES, cuts, layout_of, pieces, valid_of, vectors
from kit.laws.comparing import close, finite, same
from kit.laws.law import broken, law
from kit.laws.setting import MEMORY, WIDTH, Setting
from kit.laws.subject import Subject
from kit.layout import Layout
from kit.watching import Recorder, Watcher

LENGTH = 7
MEMORIES = (3, 5, 4)


class Running:
    """A stack in a setting, with a memory for three rows where it has one."""

    def __init__(self, subject: Subject, setting: Setting) -> None:
        self.part: Any = subject.build(setting)
        self.setting = setting

    def memory(self, rows: Sequence[int], side: Any = "right", packed: bool = False) -> Memory | None:
        """What a decoder looks at."""
        if not self.setting.memory:
            return None
        lengths = [MEMORIES[row] for row in rows]
        x = vectors(3, max(MEMORIES), MEMORY, seed=7)
        kept = torch.stack(
            [x[row] if side == "right" else x[row].roll(max(MEMORIES) - MEMORIES[row], 0) for row in rows]
        )
        kept = kept[:, : max(lengths)] if side == "right" else kept[:, -max(lengths) :]
        layout = layout_of(len(rows), max(lengths), valid_of(lengths, side))
        layout = layout.packed() if packed else layout
        return Memory(layout.unpad(kept), layout)

    def __call__(
        self, x: Tensor, layout: Layout, memory: Memory | None = None, watcher: Watcher | None = None
    ) -> Tensor:
        """All at once."""
        out: Tensor = self.part(self.part.embed(layout.unpad(x), layout.at_flat), layout, memory, None, watcher)
        return out

    def steps(self, x: Tensor, valid: Tensor | None, sizes: Sequence[int], memory: Memory | None) -> Tensor:
        """Piece by piece."""
        state, read, outs = self.part.start(), None, []
        for piece in pieces(x.shape[1], sizes):
            layout = layout_of(x.shape[0], piece.stop - piece.start, None if valid is None else valid[:, piece], read)
            read = layout if read is None else read.join(layout)
            outs.append(self.part(self.part.embed(x[:, piece], layout.at), layout, memory, state))
        return torch.cat(outs, 1)


@law("stack", "The shape stays, in rows and packed.")
def shape(subject: Subject) -> None:
    """Also for single tokens and rows without any."""
    for setting in subject.settings:
        running = Running(subject, setting)
        for lengths in ((1, 1, 1), (3, LENGTH, 0)):
            layout = layout_of(3, max(lengths), valid_of(lengths))
            for packed in (False, True):
                lay = layout.packed() if packed else layout
                x = vectors(3, max(lengths), WIDTH)
                out, wanted = running(x, lay, running.memory(range(3), packed=packed)), lay.unpad(x)
                if out.shape != wanted.shape or out.dtype != wanted.dtype:
                    broken(f"{setting.name}: gives {list(out.shape)} {out.dtype}, wanted {list(wanted.shape)}")
                finite(out, f"{setting.name}, texts of {lengths}")


@law("stack", "A text gets the same alone and beside others, padded on either side, and packed.")
def padding(subject: Subject) -> None:
    """Memories are padded too."""
    lengths = (3, LENGTH, 1)
    for setting in subject.settings:
        running = Running(subject, setting)
        for side in SIDES:
            valid = valid_of(lengths, side)
            assert valid is not None
            x = vectors(3, LENGTH, WIDTH).masked_scatter(~valid[..., None], 50.0 * vectors(3, LENGTH, WIDTH, seed=4))
            layout = layout_of(3, LENGTH, valid)
            together = running(x, layout, running.memory(range(3), side))
            packed = running(x, layout.packed(), running.memory(range(3), side, packed=True))
            close(packed, together[valid], f"{setting.name}, {side} padding, packed")
            for row in range(3):
                alone = running(x[row][valid[row]][None], layout_of(1, lengths[row]), running.memory([row]))[0]
                close(together[row][valid[row]], alone, f"{setting.name}, {side} padding, row {row} of {lengths}")


@law("stack", "A decoder never sees the future: what comes later changes no token, bit for bit.")
def causality(subject: Subject) -> None:
    """Wherever the future begins."""
    for setting in subject.settings:
        if not setting.causal:
            continue
        running = Running(subject, setting)
        x, layout, memory = vectors(3, LENGTH, WIDTH), layout_of(3, LENGTH), running.memory(range(3))
        with torch.no_grad():
            before = running(x, layout, memory)
            for place in range(1, LENGTH):
                changed = x.clone()
                changed[:, place:] = vectors(3, LENGTH - place, WIDTH, seed=8)
                after = running(changed, layout, memory)
                same(after[:, :place], before[:, :place], f"{setting.name}, changed from {place} on")
                if torch.equal(after[:, place:], before[:, place:]):
                    broken(f"{setting.name}: tokens make no difference")


@law("stack", "State equals no state: token by token and in pieces, with padding on either side.")
def steps(subject: Subject) -> None:
    """In a decoder."""
    for setting in subject.settings:
        if not setting.causal:
            continue
        running = Running(subject, setting)
        x = vectors(3, LENGTH, WIDTH)
        for side in SIDES:
            valid = valid_of((4, LENGTH, 1), side)
            memory = running.memory(range(3), side)
            with torch.no_grad():
                whole = running(x, layout_of(3, LENGTH, valid), memory)
                for sizes in cuts(LENGTH):
                    found = running.steps(x, valid, sizes, memory)
                    close(found[valid], whole[valid], f"{setting.name}, {side} padding, pieces of {sizes}")


@law("stack", "Rows chosen from a state go on as if each were decoded alone.")
def select(subject: Subject) -> None:
    """One twice, one not at all."""
    for setting in subject.settings:
        if not setting.causal:
            continue
        running = Running(subject, setting)
        x, memory, rows = vectors(3, LENGTH, WIDTH), running.memory(range(3)), torch.tensor([2, 0, 2, 1])
        with torch.no_grad():
            whole = running(x, layout_of(3, LENGTH), memory)
            state, first = running.part.start(), layout_of(3, 4)
            running.part(running.part.embed(x[:, :4], first.at), first, memory, state)
            state.select(rows)
            later = layout_of(4, LENGTH - 4, after=first.select(rows))
            memory = None if memory is None else memory.select(rows)
            found = running.part(running.part.embed(x[rows, 4:], later.at), later, memory, state)
        close(found, whole[rows, 4:], f"{setting.name}, after choosing rows")


@law("stack", "Watched equals unwatched.")
def watched(subject: Subject) -> None:
    """With padding."""
    for setting in subject.settings:
        running = Running(subject, setting)
        valid = valid_of((3, LENGTH, 1))
        x, layout, memory = vectors(3, LENGTH, WIDTH), layout_of(3, LENGTH, valid), running.memory(range(3))
        with torch.no_grad():
            unwatched, seen = running(x, layout, memory), running(x, layout, memory, Recorder())
        close(seen[valid], unwatched[valid], setting.name)
