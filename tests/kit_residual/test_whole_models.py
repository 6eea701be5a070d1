"""Residuals in whole models, held to what every model is held to, and at depth."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from models.model_checks import check_decoder, check_encoder
from models.tiny_models import build, random_tokens

from kit import Model, Options
from kit_attention.softmax import SoftmaxOptions
from kit_residual.deepnorm import DeepnormOptions
from kit_residual.dual import DualOptions
from kit_residual.hyper import HyperOptions
from kit_residual.layerscale import LayerscaleOptions
from kit_residual.parallel import ParallelOptions
from kit_residual.post import PostOptions
from kit_residual.pre import PreOptions
from kit_residual.rezero import RezeroOptions
from kit_residual.sandwich import SandwichOptions
from kit_residual.swin import SwinOptions

RESIDUALS: dict[str, Options] = {
    "deepnorm": DeepnormOptions(),
    "dual": DualOptions(),
    "hyper": HyperOptions(streams=3),
    "hyper static": HyperOptions(streams=2, connections="static"),
    "layerscale": LayerscaleOptions(),
    "parallel": ParallelOptions(),
    "parallel each": ParallelOptions(norms="each"),
    "rezero": RezeroOptions(),
    "sandwich": SandwichOptions(),
    "swin": SwinOptions(),
}


def moved(model: Model) -> Model:
    """Weights away from special values such as zero."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, dtype=parameter.dtype, generator=generator)
    return model


@pytest.mark.parametrize("name", RESIDUALS)
def test_translators_and_readers(name: str) -> None:
    check_decoder(moved(build(layer={"residual": RESIDUALS[name]})))
    check_encoder(moved(build("encoder", layer={"residual": RESIDUALS[name]})))


@pytest.mark.parametrize("name", ["deepnorm", "dual", "hyper", "layerscale", "rezero", "sandwich", "swin", "parallel"])
def test_gradients_reach_the_first_of_64_layers(name: str) -> None:
    """Unlike post-norm, where they have all but vanished."""
    first, last = (layer_gradients(RESIDUALS[name], 64)[number] for number in (0, -1))
    assert 0.05 < first / last < 50


def test_post_norm_loses_gradients_at_depth() -> None:
    gradients = layer_gradients(PostOptions(), 64)
    assert gradients[0] / gradients[-1] < 0.05


def layer_gradients(residual: Options, depth: int) -> list[float]:
    """The size of the gradient of the stream before each layer."""
    layer: dict[str, Any] = {"residual": residual, "depth": depth, "attention": SoftmaxOptions(heads=2)}
    model = build("decoder", layer=layer)
    streams: list[torch.Tensor] = []
    for number in range(depth):
        part = model.decoder.stack.layers[number]
        part.register_forward_pre_hook(lambda _, given: (given[0].retain_grad(), streams.append(given[0]))[1])
    target = random_tokens(12, 12)
    model(target=target).log_softmax(-1).gather(-1, target.ids.roll(-1, 1)[..., None]).sum().backward()
    return [float(stream.grad.norm()) for stream in streams]  # type: ignore[union-attr]


def test_rezero_is_the_identity_at_first() -> None:
    """Whatever the depth, vectors come out as they went in, and no norm has to be named."""
    model = build("encoder", layer={"residual": RezeroOptions(), "depth": 3}, norm=None)
    layer = model.encoder.stack
    from kit import BatchLayout

    x = torch.randn(2, 5, 32, dtype=torch.float64)
    assert torch.equal(layer(x, BatchLayout.of(random_tokens(5, 5))), x)
    assert not [name for name, _ in model.named_parameters() if "norm" in name]


def test_deepnorm_scales_what_carries_values_and_nothing_else() -> None:
    plain = build(layer={"residual": PostOptions(), "depth": 3})
    deep = build(layer={"residual": DeepnormOptions(), "depth": 3})
    encoder, decoder = 0.87 * (3**4 * 3) ** (-1 / 16), 36**-0.25
    for side, beta in (("encoder", encoder), ("decoder", decoder)):
        one, two = (dict(getattr(model, side).stack.layers[1].named_parameters()) for model in (plain, deep))
        for name, weight in one.items():
            if "norms" in name:
                continue
            expected = weight.clone()
            if "feedforward" in name or "output" in name:
                expected *= beta
            elif "query_key_value" in name or "key_value" in name:
                expected[-32:] *= beta
            assert torch.allclose(two[name], expected, rtol=1e-6, atol=0), name


def test_sandwich_counts_two_norms_a_sublayer_and_pre_one() -> None:
    def norms(options: Options) -> int:
        model = build("decoder", layer={"residual": options})
        return sum(parameter.numel() for name, parameter in model.named_parameters() if "norm" in name)

    assert norms(PreOptions()) == 2 * 2 * 64 + 64
    assert norms(SandwichOptions()) == 2 * 4 * 64 + 64
    assert norms(ParallelOptions()) == 2 * 64 + 64
    assert norms(ParallelOptions(norms="each")) == 2 * 2 * 64 + 64
    assert norms(DualOptions()) == 2 * 2 * 64 + 64
