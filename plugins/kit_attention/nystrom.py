"""Nyström approximation of softmax attention through landmarks: Nyströmformer (Xiong et al. 2021); encoders only.

A landmark is the mean of a segment of the sequence, so no mask can hide the future from it: masks are refused.
Shapes: B batch, H query heads, G key-value heads, L tokens, M landmarks, W kernel size, E and F dimensions of keys and
values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from kit import (
    AttentionContext,
    BatchLayout,
    BuildContext,
    Cache,
    Capabilities,
    Dims,
    MultiHeadAttention,
    MultiHeadOptions,
    NoCache,
    Problem,
    repeat_kv,
    without_autocast,
)
from kit_attention.left_align import LeftAligned
from kit_attention.subquadratic import at_least_float32, refuse_dropout, refuse_masks


class NystromOptions(MultiHeadOptions):
    """Nyström attention: queries attend to landmarks, and landmarks to keys."""

    use: Literal["nystrom"] = "nystrom"
    landmarks: PositiveInt = 64
    """Number of landmarks, the means of equal segments of a sequence."""
    iterations: PositiveInt = 6
    """Iterations of the pseudoinverse."""
    taps: PositiveInt | None = 33
    """Kernel size of the depthwise convolution of values that is added; null for none."""


class NystromAttention(MultiHeadAttention):
    """softmax(q · landmarks) · inverse of softmax(landmarks · landmarks) · softmax(landmarks · k)."""

    options_type = NystromOptions
    options: NystromOptions
    capabilities = Capabilities(
        weights_sum_to_one=False,
        masks=frozenset(),
        positions=frozenset({"rotate"}),
        reads_memory=False,
        incremental=False,
        cost="linear",
    )

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        if options.taps is not None:
            self.taps_HW = nn.Parameter(torch.empty(self.heads, options.taps))
            nn.init.uniform_(self.taps_HW, -(options.taps**-0.5), options.taps**-0.5)

    @classmethod
    def check(cls, options: Any, dims: Dims, build_context: BuildContext) -> Iterator[Problem]:
        """Dropout is refused, the kernel size must be odd, and landmarks must not exceed the maximum length."""
        yield from super().check(options, dims, build_context)
        yield from refuse_dropout(options, build_context, cls.name())
        if options.taps is not None and options.taps % 2 == 0:
            yield build_context.problem(
                f"a convolution of {options.taps} taps has no middle", "taps", hint=f"take {options.taps + 1}"
            )
        if options.landmarks > dims.length:
            yield build_context.problem(
                f"{options.landmarks} landmarks are more than the longest sequence has tokens, {dims.length}",
                "landmarks",
                hint=f"take at most {dims.length}, or choose softmax attention",
            )

    def start(self) -> Cache:
        """No cache: it does not decode incrementally."""
        return NoCache()

    def attention_weights(self, q_BHQE: Tensor, k_BGKE: Tensor, context: AttentionContext) -> Tensor:
        """The equivalent weights of the keys, possibly negative: [B, H, Q, K]."""
        rows = LeftAligned(context.keys)
        q_BHLE, k_BHLE = rows.align(q_BHQE), repeat_kv(rows.align(k_BGKE), q_BHQE)
        to_BHLM, between_BHMM, from_BHME, marks = self._through(q_BHLE, k_BHLE, rows.layout, context)
        across = AttentionContext(marks, rows.layout)
        seen_BHML = across.masked_softmax(across.scores(from_BHME, k_BHLE, self.scale))
        weights_BHLL = to_BHLM @ between_BHMM @ seen_BHML
        if self.options.taps is not None:
            place_L = torch.arange(rows.layout.length, device=weights_BHLL.device)
            tap_LL = place_L - place_L[:, None] + self.options.taps // 2
            inside_LL = (tap_LL >= 0) & (tap_LL < self.options.taps)
            taps_HLL = self.taps_HW[:, tap_LL.clamp(0, self.options.taps - 1)] * inside_LL
            real = rows.layout.padding_mask
            weights_BHLL = weights_BHLL + (taps_HLL if real is None else taps_HLL * real[:, None, None])
        return rows.restore(rows.restore(weights_BHLL).transpose(-1, -2)).transpose(-1, -2)

    def attend(self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, context: AttentionContext) -> Tensor:
        """Attention through the landmarks, in time linear in the length: [B, H, Q, F]."""
        rows = LeftAligned(context.keys)
        q_BHLE = rows.align(q_BHQE)
        k_BHLE, v_BHLF = (repeat_kv(rows.align(each), q_BHQE) for each in (k_BGKE, v_BGKF))
        to_BHLM, between_BHMM, from_BHME, marks = self._through(q_BHLE, k_BHLE, rows.layout, context)
        seen_BHMF = AttentionContext(marks, rows.layout).attend(from_BHME, k_BHLE, v_BHLF, self.scale)
        out_BHLF = to_BHLM @ (between_BHMM @ seen_BHMF)
        if self.options.taps is not None:
            real = rows.layout.padding_mask
            v_BHLF = v_BHLF if real is None else v_BHLF * real[:, None, :, None]
            taps_HW = self.taps_HW[:, None, :, None]
            out_BHLF = out_BHLF + F.conv2d(v_BHLF, taps_HW, padding=(self.options.taps // 2, 0), groups=self.heads)
        return rows.restore(out_BHLF)

    def _through(
        self, q_BHLE: Tensor, k_BHLE: Tensor, layout: BatchLayout, context: AttentionContext
    ) -> tuple[Tensor, Tensor, Tensor, BatchLayout]:
        """Weights of the landmarks, the pseudoinverse between them, their queries, and their layout."""
        refuse_masks(context, self.name())
        means_BML, marks = landmarks(layout, self.options.landmarks)
        means = means_BML[:, None].to(q_BHLE.dtype)
        q_BHME, k_BHME = means @ q_BHLE, means @ k_BHLE
        to = AttentionContext(layout, marks)
        to_BHLM = to.masked_softmax(to.scores(q_BHLE, k_BHME, self.scale))
        with without_autocast(q_BHLE):
            between = AttentionContext(marks, marks)
            weights_BHMM = between.masked_softmax(
                between.scores(at_least_float32(q_BHME), at_least_float32(k_BHME), self.scale)
            )
            if marks.padding_mask is not None:
                weights_BHMM = weights_BHMM * marks.padding_mask[:, None, :, None]
            inverse_BHMM = pseudoinverse(weights_BHMM, self.options.iterations).to(to_BHLM.dtype)
        return to_BHLM, inverse_BHMM, q_BHME, marks


def landmarks(layout: BatchLayout, count: int) -> tuple[Tensor, BatchLayout]:
    """Averaging weights of the tokens for each landmark [B or 1, M, L], and the layout of landmarks; right-padded."""
    place_1L = torch.arange(layout.length, device=layout.device)[None]
    if layout.padding_mask is None:
        total_B1, real_BL = torch.full((1, 1), layout.length, device=layout.device), torch.ones_like(place_1L).bool()
    else:
        total_B1, real_BL = layout.padding_mask.sum(1, keepdim=True), layout.padding_mask
    segment_BL = place_1L * count // total_B1.clamp(min=1)
    mark_M1 = torch.arange(count, device=layout.device)[:, None]
    inside_BML = (segment_BL[:, None] == mark_M1) & real_BL[:, None]
    size_BM1 = inside_BML.sum(-1, keepdim=True)
    full = layout.padding_mask is None and layout.length >= count
    there = None if full else (size_BM1 > 0).squeeze(-1).expand(layout.rows, count)
    return inside_BML / size_BM1.clamp(min=1), BatchLayout((layout.rows, count), layout.device, there, False)


def pseudoinverse(a_MM: Tensor, iterations: int) -> Tensor:
    """Pseudoinverse of [..., M, M] by the paper's third-order iteration; zero rows and columns stay zero."""
    bound = a_MM.abs().sum(-1).amax(-1) * a_MM.abs().sum(-2).amax(-1)
    bound = bound.where(bound > 0, torch.ones_like(bound))[..., None, None]
    z_MM = a_MM.transpose(-1, -2) / bound
    eye_MM = torch.eye(a_MM.shape[-1], dtype=a_MM.dtype, device=a_MM.device)
    for _ in range(iterations):
        az_MM = a_MM @ z_MM
        z_MM = 0.25 * z_MM @ (13 * eye_MM - az_MM @ (15 * eye_MM - az_MM @ (7 * eye_MM - az_MM)))
    return z_MM
