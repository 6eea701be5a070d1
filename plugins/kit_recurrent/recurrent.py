"""Recurrent stack: a uni- or bidirectional encoder, or a decoder with attention to the encoder.

Bahdanau et al. 2015; Luong et al. 2015.
Shapes: B batch, L length, D model width, H hidden size, S layers times directions, C states per layer (hidden, cell).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from kit import (
    Attention,
    AttentionContext,
    AttentionObserver,
    AttentionSlot,
    BatchLayout,
    BuildContext,
    Cache,
    CacheList,
    Dims,
    EncoderOutput,
    LayerPlan,
    NoCache,
    Options,
    Problem,
    RecurrentCache,
    Stack,
    drop,
)
from kit_recurrent.packed_sequence import HiddenState, call, run


class RecurrentStack(Stack):
    """A recurrent stack; a variant overrides `new_cells`."""

    options: RecurrentOptions

    gates: ClassVar[int] = 1
    """Gates of a cell, whose matrices are stacked."""
    remembers: ClassVar[tuple[str, ...]] = ("hidden",)
    """Names of the states of a layer."""

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.hidden = options.width(dims)
        self.both = options.reads_both_ways(build_context)
        reads = {"none": dims.width, "input": 2 * dims.width, "context": dims.width + self.hidden}[options.feed]
        dropout = dims.dropout if options.depth > 1 else 0.0
        self.cells = self.new_cells(reads, dropout)
        given = self.hidden * (2 if self.both else 1)
        if dims.memory is not None:
            given = 2 * self.hidden + (dims.width if options.feed == "context" else 0)
            (plan,) = self.layer_plans(options, build_context)
            self.attention: Attention = plan.build("cross_attention", dims)
            if options.begin == "mean":
                self.first = nn.Linear(dims.memory, len(self.remembers) * options.depth * self.hidden)
        self.output = None if given == dims.width else nn.Linear(given, dims.width)
        self.reset_parameters()

    @abstractmethod
    def new_cells(self, reads: int, dropout: float) -> nn.RNNBase:
        """The layers, from input size `reads` to the hidden size, batch first."""

    def reset_parameters(self) -> None:
        """Xavier for input matrices, orthogonal for recurrent ones, gate by gate; zero biases."""
        for name, parameter in self.cells.named_parameters():
            if name.startswith("bias"):
                nn.init.zeros_(parameter)
            for gate in parameter.chunk(self.gates) if name.startswith("weight") else ():
                nn.init.orthogonal_(gate) if "_hh_" in name else nn.init.xavier_uniform_(gate)

    @classmethod
    def check(cls, options: Any, dims: Dims, build_context: BuildContext) -> Iterator[Problem]:
        """The direction and `feed` must suit the place of the stack; attention is checked as in any stack."""
        if build_context.causal and options.direction == "both":
            yield build_context.problem(
                f"the {build_context.stack} writes from left to right, and direction: both reads what is not yet "
                "written",
                "direction",
                hint="write direction: forward, or leave it out",
            )
        yield from super().check(options, dims, build_context)
        if dims.memory is None and options.feed != "none":
            yield build_context.problem(
                f"feed: {options.feed} gives back what attention found, and the {build_context.stack} has no memory",
                "feed",
                hint="leave feed out",
            )

    @classmethod
    def layer_plans(cls, options: Any, build_context: BuildContext) -> list[LayerPlan]:
        """The attention to the memory, whose queries are the hidden states of the last layer."""
        here = build_context.at(layer=options.depth - 1, depth=options.depth)
        paths = {"cross_attention": ("attention",)}
        return [LayerPlan(here, {"cross_attention": options.attention}, paths, width=options.hidden)]

    def forward(
        self,
        x: Tensor,
        layout: BatchLayout,
        memory: EncoderOutput | None = None,
        state: Cache | None = None,
        observer: AttentionObserver | None = None,
    ) -> Tensor:
        """x: [..., D] in the given layout; the same shape."""
        kept, looked = state.parts if isinstance(state, CacheList) else (None, None)
        before = self._before(layout.rows, x, memory, kept)
        if memory is not None and self.options.feed != "none":
            return self._step_by_step(x, layout, memory, before, state, observer)
        out, after = run(self.cells, x, layout, before)
        self._keep(kept, after)
        if memory is None:
            return drop(out if self.output is None else self.output(out), self.dims.dropout, self.training)
        found = self.attention(out, memory.x, AttentionContext(layout, memory.layout, observer=observer), looked)
        return self._join(out, found)

    def start(self) -> Cache:
        """Hidden states, and the cache of cross-attention."""
        if self.both:
            return NoCache()
        return CacheList([RecurrentCache(), self.attention.start() if hasattr(self, "attention") else NoCache()])

    def _step_by_step(
        self,
        x: Tensor,
        layout: BatchLayout,
        memory: EncoderOutput,
        before: HiddenState,
        state: Cache | None,
        observer: AttentionObserver | None,
    ) -> Tensor:
        """Token by token: the attention output of a step is an input of the next (input feeding)."""
        kept, looked = state.parts if isinstance(state, CacheList) else (None, self.attention.start())
        gathered = None if observer is None else StepObserver(observer)
        context = AttentionContext(BatchLayout((layout.rows, 1), layout.device), memory.layout, observer=gathered)
        x_BLD = layout.pad(x)
        fed = kept.values.get("fed") if isinstance(kept, RecurrentCache) else None
        fed = x_BLD.new_zeros(layout.rows, self.dims.width) if fed is None else fed
        given = []
        for number in range(layout.length):
            token, real = (
                x_BLD[:, number : number + 1],
                None if layout.padding_mask is None else layout.padding_mask[:, number, None],
            )
            if self.options.feed == "input":
                out, after = call(self.cells, torch.cat((token, fed[:, None].to(token.dtype)), -1), before)
                joined = self._join(out, self.attention(out, memory.x, context, looked))
            else:
                found = self.attention(before[0][-1][:, None], memory.x, context, looked)
                out, after = call(self.cells, torch.cat((token, found.to(token.dtype)), -1), before)
                joined = self._join(out, found, token)
            given.append(joined)
            fed = _where(real, joined[:, 0], fed)
            before = tuple(_where(real, new, old) for new, old in zip(after, before, strict=True))
        self._keep(kept, before, fed)
        if gathered is not None:
            gathered.finish(AttentionContext(layout, memory.layout))
        return layout.unpad(torch.cat(given, 1))

    def _join(self, *parts: Tensor) -> Tensor:
        assert self.output is not None
        joined = torch.tanh(self.output(torch.cat([part.to(parts[0].dtype) for part in parts], -1)))
        return drop(joined, self.dims.dropout, self.training)

    def _before(self, rows: int, x: Tensor, memory: EncoderOutput | None, kept: Cache | None) -> HiddenState:
        if isinstance(kept, RecurrentCache) and kept.values:
            return tuple(kept.values[name].transpose(0, 1).contiguous() for name in self.remembers)
        layers = self.options.depth * (2 if self.both else 1)
        if memory is None or self.options.begin == "zeros":
            return tuple(x.new_zeros(layers, rows, self.hidden) for _ in self.remembers)
        first_BCSH = torch.tanh(self.first(_mean(memory))).view(rows, len(self.remembers), layers, self.hidden)
        return tuple(each.transpose(0, 1).contiguous() for each in first_BCSH.unbind(1))

    def _keep(self, kept: Cache | None, after: HiddenState, fed: Tensor | None = None) -> None:
        if isinstance(kept, RecurrentCache):
            for name, value in zip(self.remembers, after, strict=True):
                kept.values[name] = value.transpose(0, 1)
            if fed is not None and self.options.feed == "input":
                kept.values["fed"] = fed


def _where(real_B1: Tensor | None, new: Tensor, old: Tensor) -> Tensor:
    return new if real_B1 is None else torch.where(real_B1, new, old)


def _mean(memory: EncoderOutput) -> Tensor:
    x_BLD, padding_mask_BL = memory.layout.pad(memory.x), memory.layout.padding_mask
    if padding_mask_BL is None:
        return x_BLD.mean(1)
    real_BL1 = padding_mask_BL[:, :, None].to(x_BLD.dtype)
    return (x_BLD * real_BL1).sum(1) / real_BL1.sum(1).clamp(min=1)


class RecurrentOptions(Options):
    """Options of recurrent stacks, which need no positions and no masks."""

    depth: PositiveInt = Field(default=1, le=1_000)
    """Number of layers."""
    hidden: PositiveInt | None = None
    """Hidden size per direction; left out, the model's width."""
    direction: Literal["both", "forward"] | None = None
    """Bidirectional or forward; left out, bidirectional in an encoder and forward in a decoder."""
    attention: AttentionSlot | None = None
    """Attention to the encoder; needed in the decoder of an encoder-decoder, and only there."""
    feed: Literal["none", "input", "context"] = "none"
    """What attention feeds back into the recurrence. `none`: nothing, so that all steps attend at once (Luong et al.
    2015). `input`: the previous attentional output, beside the token (their input feeding, section 3.3). `context`: the
    context vector of the previous hidden state (Bahdanau et al. 2015)."""
    begin: Literal["mean", "zeros"] = "mean"
    """Initial hidden state of a decoder: a projection of the mean of the encoder's output (Sennrich et al. 2017), or
    zeros."""

    def width(self, dims: Dims) -> int:
        """The hidden size per direction."""
        return self.hidden or dims.width

    def reads_both_ways(self, build_context: BuildContext) -> bool:
        """Whether the stack is bidirectional."""
        return self.direction == "both" or (self.direction is None and not build_context.causal)


class StepObserver(AttentionObserver):
    """Collects the attention weights of single steps and reports them to another observer at the end.

    Outputs of heads are forwarded step by step.
    """

    def __init__(self, observer: AttentionObserver) -> None:
        self.observer = observer
        self.steps: dict[str, tuple[BuildContext, list[Tensor]]] = {}
        self.unseen: set[str] = set()

    def weights(self, build_context: BuildContext, weights_BHQK: Tensor, context: AttentionContext) -> None:
        """Collects the weights of a step."""
        self.steps.setdefault(build_context.name, (build_context, []))[1].append(weights_BHQK)

    def without_weights(self, build_context: BuildContext, reason: str) -> None:
        """Forwards, once."""
        if build_context.name not in self.unseen:
            self.unseen.add(build_context.name)
            self.observer.without_weights(build_context, reason)

    def heads(self, build_context: BuildContext, out_BHQF: Tensor) -> Tensor:
        """Forwards."""
        return self.observer.heads(build_context, out_BHQF)

    def finish(self, context: AttentionContext) -> None:
        """Reports all weights, one query per step."""
        for build_context, steps in self.steps.values():
            self.observer.weights(build_context, torch.cat(steps, 2), context)
