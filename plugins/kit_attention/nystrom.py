"""Softmax attention through a few landmarks: Nyströmformer (Xiong et al. 2021). Reads a text, does not write one.

A landmark is the mean of a stretch of the text, so it cannot be kept from knowing the future: masks are refused.
Shapes: B rows, H heads, G groups, L tokens, M landmarks, W taps, E width of a key, F width of a value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from kit import (
    Abilities,
    Dims,
    Layout,
    MultiHeadAttention,
    MultiHeadOptions,
    NoState,
    Problem,
    Scope,
    Site,
    State,
    repeat_groups,
    without_autocast,
)
from kit_attention.only import refuse_dropout, refuse_masks
from kit_attention.real_first import RealFirst
from kit_attention.widening import widened


class NystromOptions(MultiHeadOptions):
    """Queries see landmarks, landmarks see keys."""

    use: Literal["nystrom"] = "nystrom"
    landmarks: PositiveInt = 64
    """How many landmarks there are: means of equal stretches of a row's real tokens."""
    iterations: PositiveInt = 6
    """How many steps the inverse between landmarks takes."""
    taps: PositiveInt | None = 33
    """How many neighbouring values, the own in the middle, are added by a convolution; null for none."""


class NystromAttention(MultiHeadAttention):
    """softmax(q · landmarks) · inverse of softmax(landmarks · landmarks) · softmax(landmarks · k)."""

    options_type = NystromOptions
    options: NystromOptions
    abilities = Abilities(
        shares=False, masks=frozenset(), positions=frozenset({"rotate"}), reads_memory=False, steps=False, cost="linear"
    )

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        if options.taps is not None:
            self.taps_HW = nn.Parameter(torch.empty(self.heads, options.taps))
            nn.init.uniform_(self.taps_HW, -(options.taps**-0.5), options.taps**-0.5)

    @classmethod
    def check(cls, options: Any, dims: Dims, site: Site) -> Iterator[Problem]:
        """No weights are dropped, the convolution has a middle, and landmarks are fewer than tokens."""
        yield from super().check(options, dims, site)
        yield from refuse_dropout(options, site, cls.part_name())
        if options.taps is not None and options.taps % 2 == 0:
            yield site.problem(
                f"a convolution of {options.taps} taps has no middle", "taps", hint=f"take {options.taps + 1}"
            )
        if options.landmarks > dims.length:
            yield site.problem(
                f"{options.landmarks} landmarks are more than the longest text has tokens, {dims.length}",
                "landmarks",
                hint=f"take at most {dims.length}, or choose softmax attention",
            )

    def start(self) -> State:
        """Nothing: it does not go step by step."""
        return NoState()

    def weigh(self, q_BHQE: Tensor, k_BGKE: Tensor, scope: Scope) -> Tensor:
        """What each value ends up with. It may be negative."""
        rows = RealFirst(scope.keys)
        q_BHLE, k_BHLE = rows.forth(q_BHQE), repeat_groups(rows.forth(k_BGKE), q_BHQE)
        to_BHLM, between_BHMM, from_BHME, marks = self._through(q_BHLE, k_BHLE, rows.layout, scope)
        across = Scope(marks, rows.layout)
        seen_BHML = across.weigh(across.scores(from_BHME, k_BHLE, self.scale))
        weights_BHLL = to_BHLM @ between_BHMM @ seen_BHML
        if self.options.taps is not None:
            place_L = torch.arange(rows.layout.length, device=weights_BHLL.device)
            tap_LL = place_L - place_L[:, None] + self.options.taps // 2
            inside_LL = (tap_LL >= 0) & (tap_LL < self.options.taps)
            taps_HLL = self.taps_HW[:, tap_LL.clamp(0, self.options.taps - 1)] * inside_LL
            real = rows.layout.valid
            weights_BHLL = weights_BHLL + (taps_HLL if real is None else taps_HLL * real[:, None, None])
        return rows.back(rows.back(weights_BHLL).transpose(-1, -2)).transpose(-1, -2)

    def attend(self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, scope: Scope) -> Tensor:
        """Through the landmarks."""
        rows = RealFirst(scope.keys)
        q_BHLE = rows.forth(q_BHQE)
        k_BHLE, v_BHLF = (repeat_groups(rows.forth(each), q_BHQE) for each in (k_BGKE, v_BGKF))
        to_BHLM, between_BHMM, from_BHME, marks = self._through(q_BHLE, k_BHLE, rows.layout, scope)
        seen_BHMF = Scope(marks, rows.layout).attend(from_BHME, k_BHLE, v_BHLF, self.scale)
        out_BHLF = to_BHLM @ (between_BHMM @ seen_BHMF)
        if self.options.taps is not None:
            real = rows.layout.valid
            v_BHLF = v_BHLF if real is None else v_BHLF * real[:, None, :, None]
            taps_HW = self.taps_HW[:, None, :, None]
            out_BHLF = out_BHLF + F.conv2d(v_BHLF, taps_HW, padding=(self.options.taps // 2, 0), groups=self.heads)
        return rows.back(out_BHLF)

    def _through(
        self, q_BHLE: Tensor, k_BHLE: Tensor, layout: Layout, scope: Scope
    ) -> tuple[Tensor, Tensor, Tensor, Layout]:
        """Weights of landmarks, the inverse between them, their queries, and their layout."""
        refuse_masks(scope, self.part_name())
        shares_BML, marks = landmarks(layout, self.options.landmarks)
        shares = shares_BML[:, None].to(q_BHLE.dtype)
        q_BHME, k_BHME = shares @ q_BHLE, shares @ k_BHLE
        to = Scope(layout, marks)
        to_BHLM = to.weigh(to.scores(q_BHLE, k_BHME, self.scale))
        with without_autocast(q_BHLE):
            between = Scope(marks, marks)
            weights_BHMM = between.weigh(between.scores(widened(q_BHME), widened(k_BHME), self.scale))
            if marks.valid is not None:
                weights_BHMM = weights_BHMM * marks.valid[:, None, :, None]
            inverse_BHMM = pseudoinverse(weights_BHMM, self.options.iterations).to(to_BHLM.dtype)
        return to_BHLM, inverse_BHMM, q_BHME, marks


def landmarks(layout: Layout, count: int) -> tuple[Tensor, Layout]:
    """The share of each token in each landmark [B or 1, M, L], and which landmarks there are; padding stands last."""
    place_1L = torch.arange(layout.length, device=layout.device)[None]
    if layout.valid is None:
        total_B1, real_BL = torch.full((1, 1), layout.length, device=layout.device), torch.ones_like(place_1L).bool()
    else:
        total_B1, real_BL = layout.valid.sum(1, keepdim=True), layout.valid
    stretch_BL = place_1L * count // total_B1.clamp(min=1)
    mark_M1 = torch.arange(count, device=layout.device)[:, None]
    inside_BML = (stretch_BL[:, None] == mark_M1) & real_BL[:, None]
    size_BM1 = inside_BML.sum(-1, keepdim=True)
    full = layout.valid is None and layout.length >= count
    there = None if full else (size_BM1 > 0).squeeze(-1).expand(layout.rows, count)
    return inside_BML / size_BM1.clamp(min=1), Layout((layout.rows, count), layout.device, there, False)


def pseudoinverse(a_MM: Tensor, iterations: int) -> Tensor:
    """Of each matrix [..., M, M], by the paper's third-order steps; zero rows and columns stay zero."""
    bound = a_MM.abs().sum(-1).amax(-1) * a_MM.abs().sum(-2).amax(-1)
    bound = bound.where(bound > 0, torch.ones_like(bound))[..., None, None]
    z_MM = a_MM.transpose(-1, -2) / bound
    eye_MM = torch.eye(a_MM.shape[-1], dtype=a_MM.dtype, device=a_MM.device)
    for _ in range(iterations):
        az_MM = a_MM @ z_MM
        z_MM = 0.25 * z_MM @ (13 * eye_MM - az_MM @ (15 * eye_MM - az_MM @ (7 * eye_MM - az_MM)))
    return z_MM
