"""Top-k attention against sorting each query's scores by hand."""

from __future__ import annotations

import pytest
import torch

from kit import AttentionRecorder
from kit_attention.softmax import SoftmaxOptions
from kit_attention.topk import TopkOptions

from .alone import attention, context, heads, layout, sees, vectors


@pytest.mark.parametrize("causal", [False, True], ids=["both ways", "causal"])
@pytest.mark.parametrize("keep", [1, 2, 4])
def test_keeps_the_best_that_a_query_may_see(keep: int, causal: bool) -> None:
    part = attention(TopkOptions(heads=3, keep=keep))
    x, recorder = vectors(2, 6), AttentionRecorder()
    with torch.no_grad():
        found = part(x, None, context(layout(6, 4), causal, observer=recorder))
    (weights,) = recorder.by_site.values()
    for row, length in enumerate((6, 4)):
        with torch.no_grad():
            q, k, v = heads(part.query_key_value, x[row, :length], (12, 12, 12), (3, 3, 3))
        for i in range(length):
            given = []
            for h in range(3):
                seen = [j for j in range(length) if sees(i, j, causal)]
                kept = sorted(seen, key=lambda j: -float(q[h, i] @ k[h, j]))[:keep]
                shares = torch.stack([q[h, i] @ k[h, j] / 2 for j in kept]).softmax(0)
                assert weights[row, h, i].nonzero().flatten().tolist() == sorted(kept)
                given.append(sum(share * v[h, j] for share, j in zip(shares, kept, strict=True)))
            with torch.no_grad():
                assert (found[row, i] - part.output(torch.cat(given))).abs().max() < 1e-12


def test_keeping_all_is_plain_attention() -> None:
    few, plain = attention(TopkOptions(heads=3, keep=9)), attention(SoftmaxOptions(heads=3))
    plain.load_state_dict(few.state_dict())
    for length in (5, 9, 10):
        same = few(vectors(1, length), None, context(layout(length))) - plain(
            vectors(1, length), None, context(layout(length))
        )
        assert (same.abs().max() < 1e-12) == (length <= 9)


def test_keys_that_tie_are_kept_together() -> None:
    part = attention(TopkOptions(heads=1, keep=1))
    recorder = AttentionRecorder()
    part(vectors(1, 1).expand(1, 3, 12), None, context(layout(3), observer=recorder))
    (weights,) = recorder.by_site.values()
    assert (weights - 1 / 3).abs().max() < 1e-12


@pytest.mark.parametrize("keep", [0, -3])
def test_keeping_none_is_refused(keep: int) -> None:
    with pytest.raises(ValueError):
        TopkOptions(keep=keep)
