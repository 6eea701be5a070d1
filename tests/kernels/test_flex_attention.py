"""Masks lowered to blocks say the same as the dense truth; the kernel is CUDA's, but its plain form runs here too."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from models.tiny_models import KIT, random_tokens

from kit import AttentionContext, BatchLayout, Mask, TokenBatch, all_of
from kit.kernels.attention import should_use_flex
from kit.kernels.flex_attention import block_sparse_attention

MASKS: dict[str, list[dict[str, Any]]] = {
    "window": [{"use": "causal"}, {"use": "window", "size": 5}],
    "document": [{"use": "causal"}, {"use": "document"}],
    "strided": [{"use": "strided"}],
    "prefix": [{"use": "prefix"}],
}


def context(name: str, left: bool) -> AttentionContext:
    parts = [KIT.registry.find("mask", options["use"]).component for options in MASKS[name]]
    masks: list[Mask] = [
        part(part.options_type.model_validate(options), None, None)  # type: ignore[call-arg]
        for part, options in zip(parts, MASKS[name], strict=True)
    ]
    tokens = random_tokens(40, 17, 29, left=left)
    features = {"document": torch.arange(40).expand(3, -1) // 11, "prefix": torch.arange(40).expand(3, -1) < 6}
    layout = BatchLayout.of(TokenBatch(tokens.ids, tokens.padding_mask, features))
    return AttentionContext(layout, layout, all_of(masks))


@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
@pytest.mark.parametrize("name", MASKS)
def test_blocks_equal_the_dense_truth(name: str, left: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(3, 4, 40, 16, generator=generator)
    k, v = (torch.randn(3, 2, 40, 16, generator=generator) for _ in range(2))
    seen = context(name, left)
    with torch.no_grad():
        wanted = seen.attend(q, k, v, 0.25)
        found = block_sparse_attention(q, k, v, seen.block_mask(), 0.25)
    real = seen.queries.padding_mask
    assert real is not None
    difference = (found - wanted).transpose(1, 2)[real].abs().max()
    assert difference < 1e-5


def test_only_cuda_takes_blocks() -> None:
    q = torch.zeros(3, 4, 40, 16)
    assert not should_use_flex(q, q)
