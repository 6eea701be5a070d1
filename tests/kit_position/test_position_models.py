"""What a user relies on of a whole model with each position part."""

from __future__ import annotations

import pytest
import torch
from models.model_checks import check_decoder, check_encoder
from models.tiny_models import build, random_tokens

from kit import Model, Options, TokenBatch
from kit_attention.softmax import SoftmaxOptions
from kit_position.alibi import AlibiOptions
from kit_position.cope import CopeOptions
from kit_position.fire import FireOptions
from kit_position.kerple import KerpleOptions
from kit_position.learned import LearnedOptions
from kit_position.none import NoneOptions
from kit_position.rotary import RotaryOptions
from kit_position.scaling.linear import LinearOptions
from kit_position.scaling.yarn import YarnOptions
from kit_position.shaw import ShawOptions
from kit_position.sinusoidal import SinusoidalOptions
from kit_position.t5 import T5Options
from kit_position.xpos import XposOptions

VARIANTS: dict[str, Options] = {
    "none": NoneOptions(),
    "learned": LearnedOptions(),
    "sinusoidal": SinusoidalOptions(layout="concatenated"),
    "rotary": RotaryOptions(),
    "rotary interleaved": RotaryOptions(layout="interleaved", rotary_fraction=0.5, scaling=LinearOptions(factor=2)),
    "rotary yarn": RotaryOptions(rotary_fraction=0.75, scaling=YarnOptions(factor=4, original_length=16)),
    "alibi": AlibiOptions(),
    "t5": T5Options(buckets=8, farthest=6),
    "shaw": ShawOptions(farthest=3),
    "xpos": XposOptions(reach=8),
    "kerple": KerpleOptions(),
    "kerple power": KerpleOptions(kernel="power"),
    "fire": FireOptions(hidden=4, threshold=3),
    "cope": CopeOptions(positions=4),
}
BACK_ONLY = ("xpos", "cope")


def model_with(variant: str, family: str) -> Model:
    return build(family, {"attention": SoftmaxOptions(heads=4, kv_heads=2)}, position=VARIANTS[variant])


@pytest.mark.parametrize("variant", VARIANTS)
def test_decoder(variant: str) -> None:
    check_decoder(model_with(variant, "decoder"))


@pytest.mark.parametrize("variant", [name for name in VARIANTS if name not in BACK_ONLY])
def test_encoder_and_both(variant: str) -> None:
    check_encoder(model_with(variant, "encoder"))
    check_decoder(model_with(variant, "encoder-decoder"))


@pytest.mark.parametrize("variant", VARIANTS)
def test_gradients_reach_every_parameter_beside_a_row_of_padding(variant: str) -> None:
    model = model_with(variant, "decoder").train()
    tokens = random_tokens(8, 3, 2)
    assert tokens.padding_mask is not None
    padding_mask = tokens.padding_mask.clone()
    padding_mask[2] = False
    scores = model(target=TokenBatch(tokens.ids, padding_mask))
    assert scores.isfinite().all()
    scores[padding_mask].log_softmax(-1)[..., 3].sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().max() > 0 or "query_key_value.bias" in name, name


@pytest.mark.parametrize("variant", VARIANTS)
def test_bfloat16_stays_close(variant: str) -> None:
    model = model_with(variant, "decoder").float()
    with torch.no_grad():
        wanted = model(target=random_tokens(8, 3))
        with torch.autocast("cpu", torch.bfloat16):
            found = model(target=random_tokens(8, 3))
    assert (found - wanted).abs().max() < 0.1 * wanted.abs().max()
