"""How much of a head's attention goes by position and how much by content: shares of its variation that sum to one.

Weights of many texts of one length are explained by three nested least-squares models: even weights; a weight for each
distance, beside the even one; a weight for each pair of positions. What the second adds to the first is relative, what
the third adds is absolute (a sink at the start), what is left is content.

Shapes: S texts, H heads, Q queries, K keys, C pairs of a query and a key it may see, P columns of a basis.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from pydantic import Field, PositiveInt
from torch import Tensor

from kit import AttentionMap, AttentionRecord, Kind, Options, RecordProbe, Role

NOISE = 1e-24
"""A sum of squares that is no more than rounding."""
EVEN = 0.01
"""Below this focus a head is so even that its shares are noise."""


class PositionOptions(Options):
    """Options of `position`."""

    use: Literal["position"] = "position"
    space: Literal["weights", "scores"] = "weights"
    """Whether weights are explained, or the scores they are the softmax of (as their logarithms, up to a constant for
    each query): a bias for each distance is then exactly relative."""
    length: int | None = Field(default=None, ge=2)
    """How many tokens of a text are looked at in causal attention; left out, the middle one of the texts' lengths. In
    attention to both sides, texts of the commonest length count."""
    texts: PositiveInt = 256
    """The most texts that are held in memory."""


class PositionProbe(RecordProbe):
    """Shares with the small-sample bias taken off: means over few texts follow noise, which would look absolute."""

    options_type = PositionOptions
    headline = ("relative", "absolute", "content", "focus")
    options: PositionOptions

    @property
    def quantities(self) -> Mapping[str, str]:
        """Three shares, and how far the head is from even."""
        of = "" if self.options.space == "weights" else " (scores)"
        return {
            f"relative{of}": "the share of variation that the distance between tokens explains",
            f"absolute{of}": "the share of variation that places in the text explain beyond distance",
            f"content{of}": "the share of variation that places do not explain: it goes by what the tokens are",
            f"focus{of}": "how far attention is from even: 0 for even, 1 for one key at a time; "
            "below 0.01 the shares are noise",
        }

    def look(self, found: AttentionMap, record: AttentionRecord) -> Tensor | None:
        """The weights, with no number where a key may not be seen."""
        return found.shares.masked_fill(~found.allowed, torch.nan)

    def align(self, kept: Sequence[Tensor]) -> Tensor:
        """Texts that can be laid over each other: causal ones cut to one length, others of the commonest shape."""
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
        return torch.stack(chosen[: self.options.texts])

    def conclude(self, kept_SH: Tensor) -> Tensor:
        """The shares; no numbers where there are too few texts to tell noise from content."""
        y_SHQK = kept_SH
        texts, heads = y_SHQK.shape[:2]
        if texts < 2 or not y_SHQK.shape[2]:
            return torch.full((heads, 4), torch.nan, dtype=torch.float64)
        allowed_QK = ~y_SHQK[0, 0].isnan()
        allowed_QK = allowed_QK & (allowed_QK.sum(1, keepdim=True) > 1)
        y_SHC = y_SHQK[:, :, allowed_QK]
        even_C = (allowed_QK.double() / allowed_QK.sum(1, keepdim=True).clamp(min=1))[allowed_QK]
        most = texts * (1 - even_C)[None].mul(even_C).sum()  # of each query, 1 - 1/n
        focus_H = (y_SHC - even_C).square().sum((0, 2)) / most
        if self.options.space == "weights":
            shares_H3 = shares(y_SHC - even_C, basis(allowed_QK, even_C))
        else:
            scores_SHC = y_SHC.clamp(min=torch.finfo(torch.float32).tiny).log()
            centre = _Centring(allowed_QK)
            shares_H3 = shares(centre(scores_SHC), basis(allowed_QK, None, centre))
        return torch.cat([shares_H3, focus_H[:, None]], 1)

    def role(self, values: Mapping[str, float], kind: Kind) -> Role | None:
        """What it goes by, where it prefers anything."""
        relative, absolute, content, focus = values.values()
        if focus != focus:
            return None
        if focus < EVEN:
            return Role(0.7, "spreads its attention evenly over all it may see")
        share, what = max(
            (relative, "the distance between tokens"),
            (absolute, "places in the text"),
            (content, "what the tokens are"),
        )
        if share <= 0.5:
            return None
        return Role(0.3 * share, f"goes {'by' if share > 0.8 else 'mostly by'} {what}")


def shares(y_SHC: Tensor, basis_CP: Tensor) -> Tensor:
    """[H, 3]: relative, absolute and content shares of the variation around zero; they sum to one.

    Means over S texts hold a share 1/S of the noise; what of it lies in the basis is taken off the relative part, the
    rest off the absolute part, and both are given back to content.
    """
    texts = y_SHC.shape[0]
    mean_HC = y_SHC.mean(0)
    rest_SHC = y_SHC - mean_HC
    relative_H = texts * (mean_HC @ basis_CP).square().sum(-1)
    absolute_H = texts * mean_HC.square().sum(-1) - relative_H
    content_H = rest_SHC.square().sum((0, 2))
    noise_in_basis_H = (rest_SHC @ basis_CP).square().sum((0, 2)) / (texts - 1)
    noise_H = content_H / (texts - 1)
    parts_H3 = torch.stack(
        [relative_H - noise_in_basis_H, absolute_H - (noise_H - noise_in_basis_H), content_H + noise_H], -1
    )
    total_H1 = (relative_H + absolute_H + content_H)[:, None]
    return torch.where(total_H1 > NOISE, parts_H3 / total_H1, torch.zeros_like(parts_H3))


def basis(allowed_QK: Tensor, even_C: Tensor | None, centre: _Centring | None = None) -> Tensor:
    """[C, P]: orthonormal columns that span a weight for each distance, and the even weight."""
    queries, keys = allowed_QK.shape
    offset_C = (torch.arange(keys)[None] - torch.arange(queries)[:, None])[allowed_QK]
    columns_CP = torch.nn.functional.one_hot(offset_C - offset_C.min()).double()
    if even_C is not None:
        columns_CP = torch.cat([columns_CP, even_C[:, None]], 1)
    if centre is not None:
        columns_CP = centre(columns_CP.T).T
    left_CP, size_P, _ = torch.linalg.svd(columns_CP, full_matrices=False)
    spanning: Tensor = left_CP[:, size_P > 1e-9 * size_P.max()]
    return spanning


class _Centring:
    """Takes off the mean over each query's keys: softmax does not see what all scores of a query have in common."""

    def __init__(self, allowed_QK: Tensor) -> None:
        self.query_C = allowed_QK.nonzero()[:, 0]
        self.count_Q = allowed_QK.sum(1).clamp(min=1).double()

    def __call__(self, values: Tensor) -> Tensor:
        sums = values.new_zeros(*values.shape[:-1], len(self.count_Q)).index_add_(-1, self.query_C, values)
        return values - (sums / self.count_Q)[..., self.query_C]


def _is_causal(hidden_QK: Tensor) -> bool:
    queries, keys = hidden_QK.shape
    return queries == keys and torch.equal(hidden_QK, torch.ones_like(hidden_QK).triu(1))
