"""Several streams with learned connections between them and the sublayers: Hyper-Connections (Zhu et al. 2024).

Shapes: S streams, D width; `...` is rows and tokens, or packed tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from kit import Dims, Norm, Options, Residual, Site, Sublayer


class HyperOptions(Options):
    """A sublayer reads a mix of the streams and writes to all of them, while the streams mix among themselves."""

    use: Literal["hyper"] = "hyper"
    streams: PositiveInt = Field(default=4, le=64)
    """How many streams there are; the paper takes 2 to 8."""
    connections: Literal["dynamic", "static"] = "dynamic"
    """Whether connections also depend on what the streams hold, or are the same for every token."""


class Connections(nn.Module):
    """How one sublayer is tied to the streams; it begins as a plain skip with the norm before the sublayer."""

    def __init__(self, streams: int, reads: int, norm: Norm | None, width: int) -> None:
        super().__init__()
        chosen = torch.zeros(streams, 1)
        chosen[reads % streams] = 1
        # Column 0 says what the sublayer reads, the others how streams go on.
        self.reading = nn.Parameter(torch.cat([chosen, torch.eye(streams)], 1))
        self.writing = nn.Parameter(torch.ones(streams))
        self.norm = norm
        if norm is not None:
            self.reading_change = nn.Parameter(torch.zeros(width, streams + 1))
            self.writing_change = nn.Parameter(torch.zeros(width))
            self.reading_scale = nn.Parameter(torch.tensor(0.01))
            self.writing_scale = nn.Parameter(torch.tensor(0.01))

    def forward(self, x_SD: Tensor) -> tuple[Tensor, Tensor]:
        """x: [..., S, D]; returns what is read and carried on, [..., S, S + 1], and what is written, [..., S]."""
        if self.norm is None:
            return self.reading, self.writing
        normed_SD = self.norm(x_SD)
        reading = self.reading + self.reading_scale * torch.tanh(normed_SD @ self.reading_change)
        writing = self.writing + self.writing_scale * torch.tanh(normed_SD @ self.writing_change)
        return reading, writing


class HyperResidual(Residual):
    """The stream is [..., streams, width]; the stack gives their sum, normalised."""

    options_type = HyperOptions
    options: HyperOptions
    final_norm = True

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        self.norms = nn.ModuleDict({name: self.new_norm() for name in site.sublayers})
        self.connections = nn.ModuleDict()
        for number, name in enumerate(site.sublayers):
            reads = site.layer * len(site.sublayers) + number
            norm = self.new_norm() if options.connections == "dynamic" else None
            self.connections[name] = Connections(options.streams, reads, norm, dims.width)

    def forward(self, x: Tensor, sublayers: Sequence[Sublayer]) -> Tensor:
        """x: [..., streams, width]."""
        for norm, connections, sublayer in zip(self.norms.values(), self.connections.values(), sublayers, strict=True):
            reading, writing = connections(x)
            mixed = reading.transpose(-1, -2) @ x
            y = self.dropout(sublayer(norm(mixed[..., 0, :])))
            x = mixed[..., 1:, :] + writing.unsqueeze(-1) * y.unsqueeze(-2)
        return x

    def enter(self, x: Tensor) -> Tensor:
        """Every stream begins as the token vectors."""
        return x.unsqueeze(-2).expand(*x.shape[:-1], self.options.streams, x.shape[-1])

    def leave(self, stream: Tensor) -> Tensor:
        """The sum of the streams."""
        return stream.sum(-2)
