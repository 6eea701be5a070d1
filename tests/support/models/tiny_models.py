"""Small models for tests, written with the Python twin of recipes."""

from __future__ import annotations

from typing import Any

import torch

from kit import Kit, Model, ModelSection, Options, TokenBatch
from kit.model.builder import ModelBuilder
from kit_attention.softmax import SoftmaxOptions
from kit_feedforward.relu import ReluOptions
from kit_mask.causal import CausalOptions
from kit_norm.layer import LayerOptions
from kit_position.sinusoidal import SinusoidalOptions
from kit_residual.post import PostOptions
from kit_stack.options import TransformerOptions

KIT = Kit()


def stack(cross: bool = False, masks: tuple[Options, ...] = (), **changes: Any) -> TransformerOptions:
    """A stack of two layers, with what a test wants otherwise."""
    options: dict[str, Any] = {
        "depth": 2,
        "attention": SoftmaxOptions(heads=4),
        "feedforward": ReluOptions(ffn_multiplier=2),
        "residual": PostOptions(),
        "masks": list(masks),
        **changes,
    }
    if cross:
        options.setdefault("cross_attention", options["attention"])
    return TransformerOptions(**options)


def section(family: str = "encoder-decoder", layer: dict[str, Any] | None = None, **changes: Any) -> ModelSection:
    """A model section; `layer` changes both stacks, the rest the model."""
    layer = layer or {}
    parts: dict[str, Any] = {
        "family": family,
        "width": 32,
        "vocabulary": 50,
        "length": 64,
        "position": SinusoidalOptions(),
        "norm": LayerOptions(),
    }
    if "encoder" in family:
        encoder = {name: value for name, value in layer.items() if name not in ("cross_attention", "masks")}
        parts["encoder"] = stack(**encoder)
    if "decoder" in family:
        decoder = {"masks": (CausalOptions(),), **layer}
        parts["decoder"] = stack(cross="encoder" in family, **decoder)
    return ModelSection(**{**parts, **changes})


def build(family: str = "encoder-decoder", layer: dict[str, Any] | None = None, **changes: Any) -> Model:
    """A small model in float64, in evaluation mode, the same every time."""
    torch.manual_seed(0)
    return ModelBuilder(KIT.registry).model(section(family, layer, **changes)).double().eval()


def random_tokens(*lengths: int, vocabulary: int = 50, left: bool = False, seed: int = 0) -> TokenBatch:
    """Random texts of these lengths, padded on the right or on the left."""
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randint(1, vocabulary, (length,), generator=generator).tolist() for length in lengths]
    if not left:
        return TokenBatch.from_lists(rows)
    right = TokenBatch.from_lists([row[::-1] for row in rows])
    return TokenBatch(right.ids.flip(1), None if right.padding_mask is None else right.padding_mask.flip(1))
