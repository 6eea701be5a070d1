"""Models in training attend within packed texts and learn the same; what the kernel does not know is left to others."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from kit import AttentionContext, Kit, MultiHeadAttention, TokenBatch
from kit.kernels.cpp import varlen_attention as varlen
from kit.kernels.cpp.varlen_attention import varlen_attention
from kit_attention.softmax import SoftmaxAttention

pytestmark = [
    pytest.mark.skipif(torch.backends.cpu.get_cpu_capability() != "AVX512", reason="this processor has no AVX-512"),
    pytest.mark.usefixtures("made_here"),
]


@pytest.fixture(scope="module")
def made_here(native: None) -> None:
    """The operations are there."""
    assert varlen.LIBRARY.load()


SOFTMAX = {"use": "softmax", "heads": 2}
LAYERS: dict[str, Any] = {"depth": 1, "attention": SOFTMAX, "feedforward": "relu", "residual": "post"}
MODEL: dict[str, Any] = {
    "family": "encoder-decoder", "width": 32, "vocabulary": 20, "position": "sinusoidal", "embedding": "token",
    "norm": "layer", "encoder": LAYERS,
    "decoder": {
        **LAYERS, "attention": {**SOFTMAX, "kv_heads": 1}, "cross_attention": SOFTMAX, "masks": ["causal"],
    },
}  # fmt: skip


def build(**changed: Any) -> torch.nn.Module:
    kit = Kit()
    torch.manual_seed(0)
    return kit.build(kit.recipe({"name": "small", "model": {**MODEL, **changed}}))


class Calls:
    """Counts calls of the varlen kernel."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        monkeypatch.setattr("kit.kernels.attention.varlen_attention.varlen_attention", self.attend)

    def attend(self, *given: Any) -> Tensor:
        self.count += 1
        return varlen_attention(*given)


def pair() -> tuple[TokenBatch, TokenBatch]:
    ids = torch.randint(4, 20, (4, 9), generator=torch.Generator().manual_seed(0))
    lengths, target_lengths = torch.tensor([9, 3, 1, 6])[:, None], torch.tensor([2, 7, 9, 1])[:, None]
    places = torch.arange(9)
    return TokenBatch(ids, places < lengths, right_padded=True), TokenBatch(
        ids, places < target_lengths, right_padded=True
    )


def loss_of(model: torch.nn.Module, packed: bool) -> tuple[Tensor, dict[str, Tensor]]:
    source, target = pair()
    scores = model(source, target, packed=packed)
    scores = scores if packed else scores[target.padding_mask]
    loss = F.cross_entropy(scores, torch.arange(scores.shape[0]) % 20)
    named = dict(model.named_parameters())
    return scores, dict(zip(named, torch.autograd.grad(loss, named.values()), strict=True))


@pytest.mark.parametrize("variant", ["softmax", "gated"])
def test_a_model_in_training_attends_so_and_learns_the_same(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = {**LAYERS, "attention": {"use": variant, "heads": 2}}
    calls, model = Calls(monkeypatch), build(encoder=encoder).train()
    padded_scores, padded = loss_of(model, packed=False)
    assert calls.count == 0
    packed_scores, packed = loss_of(model, packed=True)
    assert calls.count == 3
    assert torch.allclose(packed_scores, padded_scores, atol=1e-5)
    assert all(torch.allclose(packed[name], padded[name], atol=1e-5) for name in padded)


@pytest.mark.parametrize(
    "changed",
    [
        {"position": "rotary"},
        {"position": "alibi"},
        {"encoder": {**LAYERS, "attention": {**SOFTMAX, "dropout": 0.1}}},
        {"encoder": {**LAYERS, "attention": {**SOFTMAX, "logit_softcap": 5.0}}},
        {"encoder": {**LAYERS, "attention": {**SOFTMAX, "value_head_dim": 8}}},
        {"encoder": {**LAYERS, "attention": {**SOFTMAX, "heads": 4}}},
        {"encoder": {**LAYERS, "attention": {"use": "cosine", "heads": 2}}},
        {"encoder": {**LAYERS, "masks": [{"use": "window", "size": 2}]}},
    ],
    ids=str,
)
def test_what_it_does_not_know_is_left_to_others(changed: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    calls, model = Calls(monkeypatch), build(**changed).train()
    source, target = pair()
    model(source, target, packed=True)
    # The decoder's own attention and the one to the encoder, where positions do not reach it, are as before.
    assert calls.count == (1 if "position" in changed else 2)


@pytest.mark.parametrize("lengths", [([0, 0], [2, 1]), ([3, 2], [0, 0]), ([0, 0], [0, 0]), ([], [])], ids=str)
def test_a_side_may_have_no_token(lengths: tuple[list[int], list[int]]) -> None:
    model, places = build().train(), torch.arange(4)
    sides = [
        TokenBatch(torch.ones(len(own), 4).long(), places < torch.tensor(own)[:, None], right_padded=True)
        for own in lengths
    ]
    assert model(*sides, packed=True).shape == (sum(lengths[1]), 20)


def test_without_gradients_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, model = Calls(monkeypatch), build().eval()
    with torch.no_grad():
        model(*pair(), packed=True)
    assert calls.count == 0


def test_a_variant_that_attends_in_another_way_is_not_passed_over() -> None:
    class Hotter(SoftmaxAttention):
        def attention_weights(self, q_BHQE: Tensor, k_BGKE: Tensor, context: AttentionContext) -> Tensor:
            return super().attention_weights(2 * q_BHQE, k_BGKE, context)

    class Doubling:
        def transform_queries(self, q_BHQE: Tensor) -> Tensor:
            return 2 * q_BHQE

    class Mixed(Doubling, SoftmaxAttention):
        pass

    class OfMixed(Mixed):
        pass

    class Named(SoftmaxAttention):
        pass

    assert Hotter.varlen_attend is MultiHeadAttention.varlen_attend
    assert Mixed.varlen_attend is OfMixed.varlen_attend is MultiHeadAttention.varlen_attend
    assert Named.varlen_attend is SoftmaxAttention.varlen_attend
