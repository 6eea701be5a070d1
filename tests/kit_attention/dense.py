"""Models with each attention that scores all pairs, built once for all tests."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from models.tiny_models import build

from kit import Model, Options
from kit_attention.additive import AdditiveOptions
from kit_attention.cosine import CosineOptions
from kit_attention.differential import DifferentialOptions
from kit_attention.disentangled import DisentangledOptions
from kit_attention.gated import GatedOptions
from kit_attention.latent import LatentOptions
from kit_attention.relative import RelativeOptions
from kit_attention.sigmoid import SigmoidOptions
from kit_attention.sink import SinkOptions
from kit_attention.softmax import SoftmaxOptions
from kit_attention.talking_heads import TalkingHeadsOptions
from kit_attention.topk import TopkOptions
from kit_position.none import NoneOptions

VARIANTS: dict[str, Options] = {
    "additive": AdditiveOptions(heads=4, kv_heads=2),
    "capped": SoftmaxOptions(heads=4, logit_softcap=0.5),
    "cosine": CosineOptions(heads=4, kv_heads=2),
    "cosine per head": CosineOptions(heads=4, scale="learned_per_head", bias=False),
    "cosine fixed": CosineOptions(heads=4, scale="fixed", start=3.0),
    "differential": DifferentialOptions(heads=4),
    "differential grouped": DifferentialOptions(heads=4, kv_heads=2, head_dim=6, value_head_dim=10, balance="layer"),
    "differential low rank": DifferentialOptions(heads=2, value_lora_rank=5),
    "disentangled": DisentangledOptions(heads=4, farthest=4),
    "disentangled in buckets": DisentangledOptions(heads=4, kv_heads=2, buckets=4, farthest=6, shared_keys=True),
    "gated": GatedOptions(heads=4, kv_heads=2),
    "gated heads": GatedOptions(heads=4, gate="head", bias=False),
    "latent": LatentOptions(heads=4, kv_lora_rank=12, rope_head_dim=4),
    "latent queries": LatentOptions(heads=4, kv_lora_rank=3, q_lora_rank=10, value_head_dim=5, bias=True),
    "relative": RelativeOptions(heads=4, kv_heads=2),
    "sigmoid": SigmoidOptions(heads=4, kv_heads=2),
    "sigmoid seen": SigmoidOptions(heads=4, count="seen"),
    "sink": SinkOptions(heads=4, kv_heads=2),
    "softmax one": SinkOptions(heads=4, logit="softmax_one"),
    "talking heads": TalkingHeadsOptions(heads=4, kv_heads=2),
    "topk": TopkOptions(heads=4, keep=2),
}
OWN_POSITIONS = ("disentangled", "relative")


@cache
def model_with(variant: str, family: str) -> Model:
    """Built once, so who changes it takes a copy. Weights that begin as something special are moved away from it."""
    layer: dict[str, Any] = {"attention": VARIANTS[variant]}
    changes: dict[str, Any] = {}
    if variant.startswith(OWN_POSITIONS):
        changes["position"] = NoneOptions()
        if family == "encoder-decoder":
            layer["cross_attention"] = SoftmaxOptions(heads=4)
    model = build(family, layer, **changes)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, dtype=parameter.dtype, generator=generator)
    return model
