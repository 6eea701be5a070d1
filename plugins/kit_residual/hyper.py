"""Hyper-connections, several residual streams with learned mixing: Zhu et al. 2024.

Shapes: S streams, D width; `...` is batch and tokens, or packed tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from kit import BuildContext, Dims, Norm, Options, Residual, Sublayer


class HyperOptions(Options):
    """Hyper-connections: a sublayer reads a mix of the streams and writes to all, and the streams mix."""

    use: Literal["hyper"] = "hyper"
    streams: PositiveInt = Field(default=4, le=64)
    """Expansion rate: number of streams; 2 to 8 in the paper."""
    connections: Literal["dynamic", "static"] = "dynamic"
    """Whether connections depend on the streams (DHC) or are the same for all tokens (SHC)."""


class Connections(nn.Module):
    """Connections of one sublayer with the streams, initially those of pre-norm."""

    def __init__(self, streams: int, reads: int, norm: Norm | None, width: int) -> None:
        super().__init__()
        chosen = torch.zeros(streams, 1)
        chosen[reads % streams] = 1
        # Column 0 weighs what the sublayer reads, the others how streams continue.
        self.reading = nn.Parameter(torch.cat([chosen, torch.eye(streams)], 1))
        self.writing = nn.Parameter(torch.ones(streams))
        self.norm = norm
        if norm is not None:
            self.reading_change = nn.Parameter(torch.zeros(width, streams + 1))
            self.writing_change = nn.Parameter(torch.zeros(width))
            self.reading_scale = nn.Parameter(torch.tensor(0.01))
            self.writing_scale = nn.Parameter(torch.tensor(0.01))

    def forward(self, x_SD: Tensor) -> tuple[Tensor, Tensor]:
        """x: [..., S, D]; returns the weights of reading and mixing [..., S, S + 1], and of writing [..., S]."""
        if self.norm is None:
            return self.reading, self.writing
        normed_SD = self.norm(x_SD)
        reading = self.reading + self.reading_scale * torch.tanh(normed_SD @ self.reading_change)
        writing = self.writing + self.writing_scale * torch.tanh(normed_SD @ self.writing_change)
        return reading, writing


class HyperResidual(Residual):
    """The stream is [..., streams, width]; the stack returns the norm of their sum."""

    options_type = HyperOptions
    options: HyperOptions
    final_norm = True

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.norms = nn.ModuleDict({name: self.new_norm() for name in build_context.sublayers})
        self.connections = nn.ModuleDict()
        for number, name in enumerate(build_context.sublayers):
            reads = build_context.layer * len(build_context.sublayers) + number
            norm = self.new_norm() if options.connections == "dynamic" else None
            self.connections[name] = Connections(options.streams, reads, norm, dims.width)

    def forward(self, x: Tensor, sublayers: Sequence[Sublayer]) -> Tensor:
        """x: [..., streams, width]; the same shape."""
        for norm, connections, sublayer in zip(self.norms.values(), self.connections.values(), sublayers, strict=True):
            reading, writing = connections(x)
            mixed = reading.transpose(-1, -2) @ x
            y = self.dropout(sublayer(norm(mixed[..., 0, :])))
            x = mixed[..., 1:, :] + writing.unsqueeze(-1) * y.unsqueeze(-2)
        return x

    def begin_stream(self, x: Tensor) -> Tensor:
        """Every stream starts as the token vectors: [..., streams, width]."""
        return x.unsqueeze(-2).expand(*x.shape[:-1], self.options.streams, x.shape[-1])

    def end_stream(self, stream: Tensor) -> Tensor:
        """The sum of the streams: [..., width]."""
        return stream.sum(-2)
