"""Multi-head latent attention, which remembers one small vector a token: DeepSeek-V2 (DeepSeek-AI 2024), section 2.1.

Shapes: B rows, H heads, Q queries, K keys, C compressed width, E width of a query's or key's content, R width of what
positions turn, X both of a score's parts, F width of a value, M = E + F.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from kit import Abilities, Attention, Dims, KeyValueState, MemoryState, Options, Problem, Scope, Site, State


class LatentOptions(Options):
    """Keys and values are made from a compressed vector, which is all that has to be remembered."""

    use: Literal["latent"] = "latent"
    heads: PositiveInt = 8
    """How many heads look at the text side by side."""
    rank: PositiveInt | None = None
    """Width of the compressed vector that keys and values are made from; left out, four times the key's."""
    query_rank: PositiveInt | None = None
    """Makes queries in two steps as well, through this many numbers; left out, in one."""
    key_width: PositiveInt | None = None
    """Width of the content part of one query or key; left out, the model's width over the heads."""
    rotary_width: PositiveInt | None = None
    """Width of the part that positions turn, whose key all heads share; left out, half the content's, made even."""
    value_width: PositiveInt | None = None
    """Width of one value; left out, that of a key's content."""
    bias: bool = False
    """Whether the first projections and the output have a bias."""
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """The share of weights dropped in training."""

    def widths(self, width: int) -> tuple[int, int, int, int]:
        """Compressed, content, turned and value width."""
        content = self.key_width or max(1, width // self.heads)
        turned = self.rotary_width or max(2, content // 4 * 2)
        return self.rank or 4 * content, content, turned, self.value_width or content


class LatentAttention(Attention):
    """Remembers the compressed vector and one turned key a token; few new queries look straight at those."""

    options_type = LatentOptions
    options: LatentOptions
    # A position that looks at content would see the turned part alone, which is no content.
    abilities = Abilities(positions=frozenset({"rotate", "bias"}))

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        self.heads, self.widths = options.heads, options.widths(dims.width)
        rank, content, turned, value = self.widths
        self.scale = float((content + turned) ** -0.5)
        queries = self.heads * (content + turned)
        if options.query_rank is None:
            self.query = nn.Linear(dims.width, queries, options.bias)
        else:
            self.query_down = nn.Linear(dims.width, options.query_rank, options.bias)
            self.query_gain = nn.Parameter(torch.ones(options.query_rank))
            self.query_up = nn.Linear(options.query_rank, queries, bias=False)
        self.down = nn.Linear(dims.width if dims.memory is None else dims.memory, rank + turned, options.bias)
        self.gain = nn.Parameter(torch.ones(rank))
        self.up = nn.Linear(rank, self.heads * (content + value), bias=False)
        self.output = nn.Linear(self.heads * value, dims.width, options.bias)
        for module in self.children():
            assert isinstance(module, nn.Linear)
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)

    @classmethod
    def head_shape(cls, options: Any, dims: Dims) -> tuple[int, int]:
        """Heads, and the width that a position may turn."""
        return options.heads, options.widths(dims.width)[2]

    @classmethod
    def check(cls, options: Any, dims: Dims, site: Site) -> Iterator[Problem]:
        """Heads must divide the width, unless keys have a width of their own."""
        if options.key_width is None and dims.width % options.heads:
            yield site.problem(
                f"{options.heads} heads do not divide the width {dims.width}",
                "heads",
                hint="take a number of heads that divides the width, or name a key_width",
            )

    def forward(self, x: Tensor, memory: Tensor | None, scope: Scope, state: State | None = None) -> Tensor:
        """Compress, remember, attend in heads, join."""
        content_BHQE, turned_BHQR = self._queries(x, scope)
        latent_B1KC, shared_B1KR = self._keys(x, memory, scope, state)
        up_HMC = self.up.weight.unflatten(0, (self.heads, -1))
        key_HEC, value_HFC = up_HMC.split((self.widths[1], self.widths[3]), 1)
        if state is not None and self._is_cheaper_compressed(content_BHQE.shape[2]):
            # Queries go to where the compressed vectors are, instead of making every key and value again.
            q_BHQX = torch.cat([content_BHQE @ key_HEC, turned_BHQR], -1)
            k_B1KX = torch.cat([latent_B1KC, shared_B1KR], -1)
            out_BHQC, weights_BHQK = self._look(q_BHQX, k_B1KX, latent_B1KC, scope)
            out_BHQF = out_BHQC @ value_HFC.transpose(1, 2)
        else:
            q_BHQX = torch.cat([content_BHQE, turned_BHQR], -1)
            made_BHKM = latent_B1KC @ up_HMC.transpose(1, 2)
            k_BHKE, v_BHKF = made_BHKM.split((self.widths[1], self.widths[3]), -1)
            k_BHKX = torch.cat([k_BHKE, shared_B1KR.expand(-1, self.heads, -1, -1)], -1)
            out_BHQF, weights_BHQK = self._look(q_BHQX, k_BHKX, v_BHKF, scope)
        if scope.watcher is not None and weights_BHQK is not None:
            scope.watcher.weights(self.site, weights_BHQK, scope)
            out_BHQF = scope.watcher.heads(self.site, out_BHQF)
        joined: Tensor = self.output(scope.queries.from_heads(out_BHQF))
        return joined

    def value_path(self) -> list[Tensor]:
        """The rows of the second matrix that make values, and the output; the first is followed by a norm."""
        up_HMC = self.up.weight.unflatten(0, (self.heads, -1))
        return [up_HMC[:, self.widths[1] :], self.output.weight]

    def start(self) -> State:
        """Compressed vectors and turned keys of what was read, or of the memory."""
        return KeyValueState() if self.dims.memory is None else MemoryState(by_row=True)

    def _queries(self, x: Tensor, scope: Scope) -> tuple[Tensor, Tensor]:
        if self.options.query_rank is None:
            q = self.query(x)
        else:
            q = self.query_up(_normalise(self.query_down(x), self.query_gain))
        q_BHQX = scope.queries.pad(q).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        content_BHQE, turned_BHQR = q_BHQX.split((self.widths[1], self.widths[2]), -1)
        return content_BHQE, scope.rotate_queries(turned_BHQR)

    def _keys(self, x: Tensor, memory: Tensor | None, scope: Scope, state: State | None) -> tuple[Tensor, Tensor]:
        if isinstance(state, MemoryState) and state.projected is not None:
            return state.projected
        source, layout = (x, scope.queries) if self.dims.memory is None else (memory, scope.keys)
        assert source is not None, f"{self.site.name} attends to a memory and was given none"
        latent, shared = self.down(source).split((self.widths[0], self.widths[2]), -1)
        latent_B1KC = layout.pad(_normalise(latent, self.gain))[:, None]
        shared_B1KR = scope.rotate_keys(layout.pad(shared)[:, None])
        if isinstance(state, KeyValueState):
            return state.append(latent_B1KC, shared_B1KR)
        if isinstance(state, MemoryState):
            return state.keep(latent_B1KC, shared_B1KR)
        return latent_B1KC, shared_B1KR

    def _is_cheaper_compressed(self, queries: int) -> bool:
        """Whether wider scores cost less than making keys and values; both grow alike with keys and heads."""
        rank, content, _, value = self.widths
        return bool(queries * (2 * rank - content - value) < rank * (content + value))

    def _look(self, q: Tensor, k: Tensor, v: Tensor, scope: Scope) -> tuple[Tensor, Tensor | None]:
        dropout = self.options.dropout if self.training else 0.0
        if scope.watcher is None and not (dropout > 0 and q.device.type == "cpu"):
            return scope.attend(q, k, v, self.scale, dropout), None
        return scope.attend_plainly(q, k, v, self.scale, dropout)


def _normalise(x: Tensor, gain: Tensor) -> Tensor:
    return F.rms_norm(x, x.shape[-1:], eps=1e-6) * gain
