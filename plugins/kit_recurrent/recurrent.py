"""A stack of recurrent layers: an encoder in one direction or both, or a decoder that may attend to a memory.

Shapes: B rows, L length, D width, H hidden width, S layers times directions, C what a layer remembers besides.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from kit import (
    Attention,
    Dims,
    Layout,
    Memory,
    NoState,
    Problem,
    Scope,
    Site,
    Stack,
    State,
    States,
    TensorState,
    Watcher,
    drop,
)
from kit_recurrent.checks import attention_place, check_recurrent
from kit_recurrent.options import RecurrentOptions
from kit_recurrent.running import Remembered, call, run
from kit_recurrent.watching import StepWatcher


class RecurrentStack(Stack):
    """A variant says which cells it is made of."""

    options: RecurrentOptions

    gates: ClassVar[int] = 1
    """How many matrices a cell has for its input."""
    remembers: ClassVar[tuple[str, ...]] = ("hidden",)
    """What a layer keeps from token to token."""

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        self.hidden = options.width(dims)
        self.both = options.reads_both_ways(site)
        reads = {"none": dims.width, "input": 2 * dims.width, "context": dims.width + self.hidden}[options.feed]
        dropout = dims.dropout if options.depth > 1 else 0.0
        self.cells = self.new_cells(reads, dropout)
        given = self.hidden * (2 if self.both else 1)
        if dims.memory is not None:
            given = 2 * self.hidden + (dims.width if options.feed == "context" else 0)
            attention_dims, here = attention_place(options, dims, site)
            self.attention: Attention = here.build(options.attention, attention_dims)
            if options.begin == "mean":
                self.first = nn.Linear(dims.memory, len(self.remembers) * options.depth * self.hidden)
        self.output = None if given == dims.width else nn.Linear(given, dims.width)
        self.reset_parameters()

    @abstractmethod
    def new_cells(self, reads: int, dropout: float) -> nn.RNNBase:
        """The layers, from vectors of width `reads` to the hidden width, rows first."""

    def reset_parameters(self) -> None:
        """Input matrices by Xavier, recurrent ones orthogonal, each gate by itself; no bias."""
        for name, parameter in self.cells.named_parameters():
            if name.startswith("bias"):
                nn.init.zeros_(parameter)
            for gate in parameter.chunk(self.gates) if name.startswith("weight") else ():
                nn.init.orthogonal_(gate) if "_hh_" in name else nn.init.xavier_uniform_(gate)

    @classmethod
    def check(cls, options: Any, dims: Dims, site: Site) -> Iterator[Problem]:
        """Direction, memory and attention."""
        yield from check_recurrent(options, dims, site)

    def forward(
        self,
        x: Tensor,
        layout: Layout,
        memory: Memory | None = None,
        state: State | None = None,
        watcher: Watcher | None = None,
    ) -> Tensor:
        """x: [..., D] as `layout` carries it."""
        kept, looked = state.parts if isinstance(state, States) else (None, None)
        before = self._before(layout.rows, x, memory, kept)
        if memory is not None and self.options.feed != "none":
            return self._step_by_step(x, layout, memory, before, state, watcher)
        out, after = run(self.cells, x, layout, before)
        self._keep(kept, after)
        if memory is None:
            return drop(out if self.output is None else self.output(out), self.dims.dropout, self.training)
        found = self.attention(out, memory.x, Scope(layout, memory.layout, watcher=watcher), looked)
        return self._join(out, found)

    def start(self) -> State:
        """What layers remember, and what attention keeps of the memory."""
        if self.both:
            return NoState()
        return States([TensorState(), self.attention.start() if hasattr(self, "attention") else NoState()])

    def _step_by_step(
        self,
        x: Tensor,
        layout: Layout,
        memory: Memory,
        before: Remembered,
        state: State | None,
        watcher: Watcher | None,
    ) -> Tensor:
        """What attention finds goes into the next step, so steps have to wait for each other."""
        kept, looked = state.parts if isinstance(state, States) else (None, self.attention.start())
        gathered = None if watcher is None else StepWatcher(watcher)
        scope = Scope(Layout((layout.rows, 1), layout.device), memory.layout, watcher=gathered)
        x_BLD = layout.pad(x)
        fed = kept.values.get("fed") if isinstance(kept, TensorState) else None
        fed = x_BLD.new_zeros(layout.rows, self.dims.width) if fed is None else fed
        given = []
        for number in range(layout.length):
            token, real = x_BLD[:, number : number + 1], None if layout.valid is None else layout.valid[:, number, None]
            if self.options.feed == "input":
                out, after = call(self.cells, torch.cat((token, fed[:, None].to(token.dtype)), -1), before)
                joined = self._join(out, self.attention(out, memory.x, scope, looked))
            else:
                found = self.attention(before[0][-1][:, None], memory.x, scope, looked)
                out, after = call(self.cells, torch.cat((token, found.to(token.dtype)), -1), before)
                joined = self._join(out, found, token)
            given.append(joined)
            fed = _where(real, joined[:, 0], fed)
            before = tuple(_where(real, new, old) for new, old in zip(after, before, strict=True))
        self._keep(kept, before, fed)
        if gathered is not None:
            gathered.finish(Scope(layout, memory.layout))
        return layout.unpad(torch.cat(given, 1))

    def _join(self, *parts: Tensor) -> Tensor:
        assert self.output is not None
        joined = torch.tanh(self.output(torch.cat([part.to(parts[0].dtype) for part in parts], -1)))
        return drop(joined, self.dims.dropout, self.training)

    def _before(self, rows: int, x: Tensor, memory: Memory | None, kept: State | None) -> Remembered:
        if isinstance(kept, TensorState) and kept.values:
            return tuple(kept.values[name].transpose(0, 1).contiguous() for name in self.remembers)
        layers = self.options.depth * (2 if self.both else 1)
        if memory is None or self.options.begin == "zeros":
            return tuple(x.new_zeros(layers, rows, self.hidden) for _ in self.remembers)
        first_BCSH = torch.tanh(self.first(_mean(memory))).view(rows, len(self.remembers), layers, self.hidden)
        return tuple(each.transpose(0, 1).contiguous() for each in first_BCSH.unbind(1))

    def _keep(self, kept: State | None, after: Remembered, fed: Tensor | None = None) -> None:
        if isinstance(kept, TensorState):
            for name, value in zip(self.remembers, after, strict=True):
                kept.values[name] = value.transpose(0, 1)
            if fed is not None and self.options.feed == "input":
                kept.values["fed"] = fed


def _where(real_B1: Tensor | None, new: Tensor, old: Tensor) -> Tensor:
    return new if real_B1 is None else torch.where(real_B1, new, old)


def _mean(memory: Memory) -> Tensor:
    x_BLD, valid_BL = memory.layout.pad(memory.x), memory.layout.valid
    if valid_BL is None:
        return x_BLD.mean(1)
    real_BL1 = valid_BL[:, :, None].to(x_BLD.dtype)
    return (x_BLD * real_BL1).sum(1) / real_BL1.sum(1).clamp(min=1)
