"""Variance decomposition of attention into relative position, absolute position and content; the shares sum to one.

Three nested least-squares models explain the weights of many sequences of one length: uniform attention; a weight for
each offset beside the uniform one; a weight for each pair of positions. What the second explains beyond the first is
relative, what the third explains beyond that is absolute (a sink at the start), and the residual is content.

Shapes: S sequences, H heads, Q queries, K keys, C visible query-key pairs, P columns of a basis.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from pydantic import Field, PositiveInt
from torch import Tensor

from kit import AttentionKind, AttentionMap, AttentionRecord, Options, RecordProbe, Role

NOISE = 1e-24
"""A sum of squares that is rounding error."""
UNIFORM = 0.01
"""Below this focus a head is so near to uniform that its shares are noise."""


class PositionOptions(Options):
    """Options of `position`."""

    use: Literal["position"] = "position"
    space: Literal["weights", "logits"] = "weights"
    """Whether weights are explained, or the attention logits (as log-weights, up to a constant for each query): a bias
    by distance is then exactly relative."""
    length: int | None = Field(default=None, ge=2)
    """The length that causal attention is cut to; left out, the median sequence length. In bidirectional attention,
    only sequences of the most common length count."""
    sequences: PositiveInt = 256
    """The maximum number of sequences in memory."""


class PositionProbe(RecordProbe):
    """The shares with the small-sample bias removed: means over few sequences follow noise, which looks absolute."""

    options_type = PositionOptions
    headline = ("relative", "absolute", "content", "focus")
    options: PositionOptions

    @property
    def quantities(self) -> Mapping[str, str]:
        """Three shares, and the distance from uniform attention."""
        of = "" if self.options.space == "weights" else " (logits)"
        return {
            f"relative{of}": "the share of variance explained by the offset between tokens",
            f"absolute{of}": "the share of variance explained by absolute positions beyond the offset",
            f"content{of}": "the share of variance that positions do not explain: it depends on the tokens",
            f"focus{of}": "how far attention is from uniform: 0 for uniform, 1 for one key at a time; "
            "below 0.01 the shares are noise",
        }

    def measure(self, found: AttentionMap, record: AttentionRecord) -> Tensor | None:
        """The weights, NaN where masked."""
        return found.probabilities.masked_fill(~found.attention_mask, torch.nan)

    def align(self, kept: Sequence[Tensor]) -> Tensor:
        """Sequences of one shape: causal ones cut to one length, others of the most common shape."""
        masks = [weights[0].isnan() for weights in kept]
        causal = [number for number, mask in enumerate(masks) if _is_causal(mask)]
        if 2 * len(causal) > len(kept):
            lengths = sorted(len(masks[number]) for number in causal)
            length = self.options.length or lengths[len(lengths) // 2]
            long_enough = [kept[number] for number in causal if len(masks[number]) >= length]
            chosen = [weights[:, :length, :length] for weights in long_enough]
        else:
            keys = [(tuple(mask.shape), mask.numpy().tobytes()) for mask in masks]
            common = Counter(keys).most_common(1)[0][0]
            chosen = [weights for weights, key in zip(kept, keys, strict=True) if key == common]
        if not chosen:
            return kept[0][None, :, :0, :0]
        return torch.stack(chosen[: self.options.sequences])

    def aggregate(self, kept_SH: Tensor) -> Tensor:
        """The shares and the focus; NaN where there are too few sequences to separate noise from content."""
        y_SHQK = kept_SH
        sequences, heads = y_SHQK.shape[:2]
        if sequences < 2 or not y_SHQK.shape[2]:
            return torch.full((heads, 4), torch.nan, dtype=torch.float64)
        mask_QK = ~y_SHQK[0, 0].isnan()
        mask_QK = mask_QK & (mask_QK.sum(1, keepdim=True) > 1)
        y_SHC = y_SHQK[:, :, mask_QK]
        uniform_C = (mask_QK.double() / mask_QK.sum(1, keepdim=True).clamp(min=1))[mask_QK]
        most = sequences * (1 - uniform_C)[None].mul(uniform_C).sum()  # of each query, 1 - 1/n
        focus_H = (y_SHC - uniform_C).square().sum((0, 2)) / most
        if self.options.space == "weights":
            shares_H3 = shares(y_SHC - uniform_C, basis(mask_QK, uniform_C))
        else:
            logits_SHC = y_SHC.clamp(min=torch.finfo(torch.float32).tiny).log()
            centring = _Centring(mask_QK)
            shares_H3 = shares(centring(logits_SHC), basis(mask_QK, None, centring))
        return torch.cat([shares_H3, focus_H[:, None]], 1)

    def role(self, values: Mapping[str, float], kind: AttentionKind) -> Role | None:
        """The largest share, for a head that is not uniform."""
        relative, absolute, content, focus = values.values()
        if focus != focus:
            return None
        if focus < UNIFORM:
            return Role(0.7, "attends uniformly to all it may see")
        share, what = max(
            (relative, "relative position"),
            (absolute, "absolute position"),
            (content, "the content of tokens"),
        )
        if share <= 0.5:
            return None
        return Role(0.3 * share, f"attends {'by' if share > 0.8 else 'mostly by'} {what}")


def shares(y_SHC: Tensor, basis_CP: Tensor) -> Tensor:
    """[H, 3]: relative, absolute and content shares of the sum of squares; they sum to one.

    Means over S sequences hold 1/S of the noise variance; its part in the basis is subtracted from the relative share,
    the rest from the absolute share, and both are added to content.
    """
    sequences = y_SHC.shape[0]
    mean_HC = y_SHC.mean(0)
    rest_SHC = y_SHC - mean_HC
    relative_H = sequences * (mean_HC @ basis_CP).square().sum(-1)
    absolute_H = sequences * mean_HC.square().sum(-1) - relative_H
    content_H = rest_SHC.square().sum((0, 2))
    noise_in_basis_H = (rest_SHC @ basis_CP).square().sum((0, 2)) / (sequences - 1)
    noise_H = content_H / (sequences - 1)
    parts_H3 = torch.stack(
        [relative_H - noise_in_basis_H, absolute_H - (noise_H - noise_in_basis_H), content_H + noise_H], -1
    )
    total_H1 = (relative_H + absolute_H + content_H)[:, None]
    return torch.where(total_H1 > NOISE, parts_H3 / total_H1, torch.zeros_like(parts_H3))


def basis(mask_QK: Tensor, uniform_C: Tensor | None, centring: _Centring | None = None) -> Tensor:
    """[C, P]: orthonormal columns that span one weight for each offset, and the uniform weight."""
    queries, keys = mask_QK.shape
    offset_C = (torch.arange(keys)[None] - torch.arange(queries)[:, None])[mask_QK]
    columns_CP = torch.nn.functional.one_hot(offset_C - offset_C.min()).double()
    if uniform_C is not None:
        columns_CP = torch.cat([columns_CP, uniform_C[:, None]], 1)
    if centring is not None:
        columns_CP = centring(columns_CP.T).T
    left_CP, size_P, _ = torch.linalg.svd(columns_CP, full_matrices=False)
    spanning: Tensor = left_CP[:, size_P > 1e-9 * size_P.max()]
    return spanning


class _Centring:
    """Subtracts the mean over each query's keys: softmax is invariant to a constant for each query."""

    def __init__(self, mask_QK: Tensor) -> None:
        self.query_C = mask_QK.nonzero()[:, 0]
        self.count_Q = mask_QK.sum(1).clamp(min=1).double()

    def __call__(self, values: Tensor) -> Tensor:
        sums = values.new_zeros(*values.shape[:-1], len(self.count_Q)).index_add_(-1, self.query_C, values)
        return values - (sums / self.count_Q)[..., self.query_C]


def _is_causal(masked_QK: Tensor) -> bool:
    queries, keys = masked_QK.shape
    return queries == keys and torch.equal(masked_QK, torch.ones_like(masked_QK).triu(1))
