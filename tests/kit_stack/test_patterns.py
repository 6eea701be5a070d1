"""Layers that differ, options that a stack inherits, and which masks and positions layers share."""

from __future__ import annotations

import torch
from models.model_checks import check_decoder
from models.tiny_models import build, random_tokens, section

from kit_attention.additive import AdditiveAttention, AdditiveOptions
from kit_attention.softmax import SoftmaxAttention, SoftmaxOptions
from kit_feedforward.gelu import GeluFeedforward, GeluOptions
from kit_mask.causal import CausalOptions
from kit_norm.layer import LayerOptions as NormOptions
from kit_position.learned import LearnedOptions
from kit_residual.pre import PreOptions
from kit_stack.options import LayerOptions

PATTERN = [
    LayerOptions(repeat=2),
    LayerOptions(attention=AdditiveOptions(heads=2), feedforward=GeluOptions(ffn_multiplier=1)),
]


def test_a_pattern_repeats_over_the_depth() -> None:
    model = build("decoder", layer={"depth": 6, "layers": PATTERN})
    layers = model.decoder.stack.layers
    kinds = [type(layer.attention) for layer in layers]
    assert kinds == [SoftmaxAttention, SoftmaxAttention, AdditiveAttention] * 2
    assert [isinstance(layer.feedforward, GeluFeedforward) for layer in layers] == [False, False, True] * 2
    assert [layer.feedforward.up.out_features for layer in layers] == [64, 64, 32] * 2
    assert [layer.attention.build_context.name for layer in layers] == [
        f"decoder.{number}.attention" for number in range(6)
    ]
    assert layers[5].attention.build_context.path == ("model", "decoder", "layers", 1, "attention")
    assert layers[4].attention.build_context.path == ("model", "decoder", "attention")


def test_a_model_of_different_layers_is_a_model_like_any_other() -> None:
    check_decoder(build(layer={"depth": 3, "layers": PATTERN}))
    residuals = [LayerOptions(residual=PreOptions()), LayerOptions()]
    check_decoder(build("decoder", layer={"layers": residuals}))


def test_layers_with_the_same_position_share_one_table() -> None:
    model = build("decoder", layer={"depth": 3}, position=LearnedOptions())
    assert len(model.decoder.stack.positions) == 1
    assert sum(parameter.numel() for name, parameter in model.named_parameters() if "position" in name) == 64 * 32


def test_a_stack_has_its_own_norm_and_the_others_the_models() -> None:
    encoder = section("encoder", {"norm": NormOptions(epsilon=0.5)}).encoder
    model = build(encoder=encoder)
    for side, epsilon in ((model.encoder, 0.5), (model.decoder, 1e-5)):
        assert {layer.residual.norms["attention"].options.epsilon for layer in side.stack.layers} == {epsilon}


def test_layers_without_feedforward_only_attend() -> None:
    model = build("decoder", layer={"feedforward": None})
    assert model.decoder.stack.layers[0].residual.build_context.sublayers == ("attention",)
    check_decoder(model)


def test_the_final_norm_is_the_residuals_choice_unless_the_recipe_makes_it() -> None:
    assert build("decoder", layer={"residual": PreOptions()}).decoder.stack.final_norm is not None
    assert build("decoder", layer={"residual": PreOptions(), "final_norm": False}).decoder.stack.final_norm is None
    assert build("decoder").decoder.stack.final_norm is None
    assert build("decoder", layer={"final_norm": True}).decoder.stack.final_norm is not None


def test_layers_with_their_own_masks() -> None:
    """An encoder whose second layer only looks back: causal exactly where both are."""
    layers = [LayerOptions(masks=[CausalOptions()]), LayerOptions(masks=[CausalOptions()])]
    both = build("encoder", layer={"layers": layers, "attention": SoftmaxOptions(heads=4)})
    one = build("encoder", layer={"layers": [*layers[:1], LayerOptions()], "attention": SoftmaxOptions(heads=4)})
    source, changed = random_tokens(6), random_tokens(6).ids.clone()
    changed[:, 5] = 7
    with torch.no_grad():
        assert torch.equal(both(source)[:, :5], both(changed)[:, :5])
        assert not torch.equal(one(source)[:, :5], one(changed)[:, :5])
