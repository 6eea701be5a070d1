"""Every norm against its formula or a reference, at ordinary vectors and at zero, and in a whole model."""

from __future__ import annotations

import pytest
import torch
from models.model_checks import check_decoder, check_encoder
from models.single_parts import single_part
from models.tiny_models import build, random_tokens
from torch import Tensor, nn
from transformers.models.gemma2.modeling_gemma2 import Gemma2RMSNorm
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.models.t5.modeling_t5 import T5LayerNorm

from kit import Options
from kit_norm.dynamic_tanh import DynamicTanhOptions
from kit_norm.layer import LayerOptions
from kit_norm.none import NoneOptions
from kit_norm.rms import RmsOptions
from kit_norm.scale import ScaleOptions
from kit_residual.pre import PreOptions

VARIANTS: dict[str, Options] = {
    "layer": LayerOptions(),
    "layer without bias": LayerOptions(bias=False, epsilon=1e-12),
    "rms": RmsOptions(),
    "rms offset": RmsOptions(weight="offset"),
    "scale": ScaleOptions(),
    "dynamic_tanh": DynamicTanhOptions(),
    "none": NoneOptions(),
}


def randomised(options: Options) -> nn.Module:
    norm: nn.Module = single_part(options)
    with torch.no_grad():
        for parameter in norm.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return norm


def x() -> Tensor:
    return 3 * torch.randn(2, 5, 32, dtype=torch.float64) + 1


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("epsilon", [1e-5, 1e-12])
def test_layer(bias: bool, epsilon: float) -> None:
    norm, value = randomised(LayerOptions(bias=bias, epsilon=epsilon)), x()
    centred = value - value.mean(-1, keepdim=True)
    wanted = centred / (centred.square().mean(-1, keepdim=True) + epsilon).sqrt() * norm.weight
    assert (norm.bias is None) is not bias
    assert (norm(value) - (wanted + norm.bias if bias else wanted)).abs().max() < 1e-12


@pytest.mark.parametrize(
    ("theirs", "options"),
    [
        (T5LayerNorm(32, 1e-6), RmsOptions()),
        (LlamaRMSNorm(32, 1e-5), RmsOptions(epsilon=1e-5)),
        (Gemma2RMSNorm(32, 1e-6), RmsOptions(weight="offset")),
    ],
    ids=["t5", "llama", "gemma"],
)
def test_rms_equals_hugging_face(theirs: nn.Module, options: RmsOptions) -> None:
    """They begin alike, and give the same with the same weights."""
    norm, value = single_part(options).float(), x().float()
    assert torch.equal(norm.weight, theirs.weight)
    assert (norm(value) - theirs(value)).abs().max() < 1e-5
    theirs.weight.data.normal_()
    norm.load_state_dict(theirs.state_dict())
    assert (norm(value) - theirs(value)).abs().max() < 1e-5


def test_rms_formula() -> None:
    norm, value = randomised(RmsOptions(epsilon=0.1)), x()
    wanted = value / (value.square().mean(-1, keepdim=True) + 0.1).sqrt() * norm.weight
    assert (norm(value) - wanted).abs().max() < 1e-12


def test_scale_gives_every_vector_one_length() -> None:
    norm, value = single_part(ScaleOptions()), x()
    assert norm.length.item() == pytest.approx(32**0.5)
    with torch.no_grad():
        norm.length.fill_(2.5)
    found = norm(value)
    assert (found.norm(dim=-1) - 2.5).abs().max() < 1e-12
    assert (found / found.norm(dim=-1, keepdim=True) - value / value.norm(dim=-1, keepdim=True)).abs().max() < 1e-12


def test_dynamic_tanh_formula() -> None:
    norm, value = randomised(DynamicTanhOptions(steepness=0.8)), x()
    wanted = norm.weight * torch.tanh(norm.steepness * value) + norm.bias
    assert (norm(value) - wanted).abs().max() < 1e-12
    assert single_part(DynamicTanhOptions(steepness=0.8)).steepness.item() == pytest.approx(0.8)


def test_none_is_the_identity() -> None:
    value = x()
    assert single_part(NoneOptions())(value) is value
    assert not list(single_part(NoneOptions()).parameters())


@pytest.mark.parametrize("variant", VARIANTS)
def test_zeros_and_gradients(variant: str) -> None:
    """A vector of zeros gives finite numbers and finite gradients, and derivatives are right elsewhere."""
    norm = randomised(VARIANTS[variant])
    zero = torch.zeros(2, 32, dtype=torch.float64, requires_grad=True)
    found = norm(zero)
    found.sum().backward()
    assert found.isfinite().all()
    assert zero.grad is not None and zero.grad.isfinite().all()
    assert torch.autograd.gradcheck(norm, torch.randn(3, 32, dtype=torch.float64, requires_grad=True))


@pytest.mark.parametrize("variant", VARIANTS)
def test_half_precision_keeps_its_type_and_stays_close(variant: str) -> None:
    norm, value = randomised(VARIANTS[variant]), x()
    wanted = norm(value)
    with torch.autocast("cpu", torch.bfloat16):
        found = norm.float()(value.bfloat16())
    assert (found - wanted).abs().max() < 0.05 * wanted.abs().max()


@pytest.mark.parametrize("variant", VARIANTS)
def test_whole_model(variant: str) -> None:
    check_encoder(build("encoder", norm=VARIANTS[variant]))
    check_decoder(build("encoder-decoder", {"residual": PreOptions()}, norm=VARIANTS[variant]))


def test_rms_and_layer_norm_without_bias_have_as_many_parameters() -> None:
    counts = [
        sum(parameter.numel() for parameter in build("encoder", norm=norm).parameters())
        for norm in (RmsOptions(), LayerOptions(bias=False))
    ]
    assert counts[0] == counts[1]
    assert build("encoder", norm=RmsOptions())(random_tokens(3)).isfinite().all()
