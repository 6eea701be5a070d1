"""Rotary positions against Hugging Face: both layouts, a rotary_fraction, and every scaling."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from models.single_parts import problems, single_part
from models.tiny_models import KIT
from transformers import GPTJConfig, LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.gptj import modeling_gptj
from transformers.models.llama import modeling_llama

from kit import Options
from kit.recipe.slot_schema import bind
from kit_position.rotary import RotaryOptions
from kit_position.scaling.linear import LinearOptions
from kit_position.scaling.llama3 import Llama3Options
from kit_position.scaling.ntk import NtkOptions
from kit_position.scaling.yarn import YarnOptions

AT = torch.arange(50)[None]


def llama(width: int = 8, base: float = 10_000.0, length: int = 64, **scaling: Any) -> LlamaConfig:
    parameters = {"rope_type": "default", "rope_theta": base, **scaling}
    return LlamaConfig(
        hidden_size=4 * width, num_attention_heads=4, max_position_embeddings=length, rope_parameters=parameters
    )


def test_half_layout_equals_llama() -> None:
    q, k = torch.randn(2, 4, 50, 8), torch.randn(2, 2, 50, 8)
    cos, sin = modeling_llama.LlamaRotaryEmbedding(llama())(q, AT)
    wanted = modeling_llama.apply_rotary_pos_emb(q, k, cos, sin)
    part = single_part(RotaryOptions())
    for x, other, side in zip((q, k), wanted, ("query", "key"), strict=True):
        assert (part.rotate(x, AT, side) - other).abs().max() < 1e-5


@pytest.mark.parametrize("rotary_fraction", [1.0, 0.5])
def test_interleaved_layout_equals_gptj(rotary_fraction: float) -> None:
    turning = int(8 * rotary_fraction)
    config = GPTJConfig(n_embd=32, n_head=4, rotary_dim=turning, n_positions=64)
    table = modeling_gptj.create_sinusoidal_positions(config.n_positions, turning)
    sin, cos = table[:50][None].split(turning // 2, -1)
    x = torch.randn(2, 50, 4, 8)
    turned = modeling_gptj.apply_rotary_pos_emb(x[..., :turning], sin, cos)
    wanted = torch.cat([turned, x[..., turning:]], -1).transpose(1, 2)
    found = single_part(RotaryOptions(layout="interleaved", rotary_fraction=rotary_fraction)).rotate(
        x.transpose(1, 2), AT, "query"
    )
    assert (found - wanted).abs().max() < 1e-5


def test_layouts_differ_by_a_permutation() -> None:
    x = torch.randn(1, 2, 50, 8, dtype=torch.float64)
    order = torch.tensor([0, 4, 1, 5, 2, 6, 3, 7])
    half = single_part(RotaryOptions()).rotate(x, AT, "key")
    woven = single_part(RotaryOptions(layout="interleaved")).rotate(x[..., order], AT, "key")
    assert (half[..., order] - woven).abs().max() < 1e-14


@pytest.mark.parametrize(
    ("kind", "ours", "theirs"),
    [
        ("linear", LinearOptions(factor=4), {"factor": 4.0}),
        ("yarn", YarnOptions(factor=4, original_length=64), {"factor": 4.0, "original_max_position_embeddings": 64}),
        (
            "yarn",
            YarnOptions(factor=16, original_length=256, fast=8, slow=2, attention_factor=1.5, whole=False),
            {
                "factor": 16.0,
                "original_max_position_embeddings": 256,
                "beta_fast": 8,
                "beta_slow": 2,
                "attention_factor": 1.5,
                "truncate": False,
            },
        ),
        (
            "llama3",
            Llama3Options(factor=8, original_length=128, low=1, high=4),
            {
                "factor": 8.0,
                "original_max_position_embeddings": 128,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
            },
        ),
    ],
)
@pytest.mark.parametrize("base", [10_000.0, 500_000.0])
def test_scaling_equals_hugging_face(kind: str, ours: Options, theirs: dict[str, Any], base: float) -> None:
    config = llama(64, base, 4096, **{**theirs, "rope_type": kind})
    wanted, gain = ROPE_INIT_FUNCTIONS[kind](config, "cpu")
    scaling = single_part(ours, head_dim=64)
    found = scaling.frequencies(base, torch.device("cpu"))
    assert ((found - wanted) / wanted).abs().max() < 1e-6
    assert scaling.gain == pytest.approx(gain)


def test_ntk_equals_hugging_face_at_the_length_that_gives_its_factor() -> None:
    """Theirs follows the text's length; at 4 times the trained length with factor 1 it stretches by 4."""
    config = llama(64, rope_type="dynamic", factor=1.0, original_max_position_embeddings=64)
    wanted, _ = ROPE_INIT_FUNCTIONS["dynamic"](config, "cpu", seq_len=256)
    found = single_part(NtkOptions(factor=4), head_dim=64).frequencies(10_000.0, torch.device("cpu"))
    assert ((found - wanted) / wanted).abs().max() < 1e-6


def test_gain_multiplies_what_turns() -> None:
    x = torch.randn(1, 1, 50, 8, dtype=torch.float64)
    options = RotaryOptions(rotary_fraction=0.5, scaling=YarnOptions(factor=1, original_length=64, attention_factor=2))
    found = single_part(options).rotate(x, AT, "query")
    assert (found[..., :4].norm(dim=-1) - 2 * x[..., :4].norm(dim=-1)).abs().max() < 1e-12
    assert torch.equal(found[..., 4:], x[..., 4:])


def test_scores_depend_on_distance_alone() -> None:
    part = single_part(RotaryOptions())
    q, k = torch.randn(1, 4, 50, 8, dtype=torch.float64), torch.randn(1, 4, 50, 8, dtype=torch.float64)
    near = part.rotate(q, AT, "query") @ part.rotate(k, AT, "key").mT
    far = part.rotate(q, AT + 1_000_000, "query") @ part.rotate(k, AT + 1_000_000, "key").mT
    assert (near - far).abs().max() < 1e-8


def test_angles_follow_positions_that_change_in_place() -> None:
    """What is kept from one layer to the next must never outlive the positions it was made of."""
    part = single_part(RotaryOptions())
    at, x = AT.clone(), torch.randn(1, 4, 50, 8, dtype=torch.float64)
    part.rotate(x, at, "query")
    at += 3
    assert torch.equal(part.rotate(x, at, "query"), single_part(RotaryOptions()).rotate(x, AT + 3, "query"))
    with torch.inference_mode():
        part.rotate(x, at, "query")
    trained = x.clone().requires_grad_()
    part.rotate(trained, at, "query").sum().backward()
    assert trained.grad is not None


def test_half_precision_weights_keep_exact_angles() -> None:
    """Angles do not live in the model's type: far positions stay apart in bfloat16."""
    part, x = single_part(RotaryOptions()).bfloat16(), torch.randn(1, 1, 2, 8)
    at = torch.tensor([[100_000, 100_001]])
    found = part.rotate(x.bfloat16(), at, "query").float()
    wanted = single_part(RotaryOptions()).rotate(x.bfloat16().double(), at, "query")
    assert (found - wanted).abs().max() < 0.05


def test_a_scaling_is_chosen_by_name_in_a_recipe() -> None:
    """And a slip in it is answered like one in any part."""
    section = bind(RotaryOptions, KIT.registry)
    assert isinstance(section.model_validate({"scaling": "llama3"}).scaling, Llama3Options)
    with pytest.raises(ValueError, match="did you mean linear"):
        section.model_validate({"scaling": {"use": "lineer", "factor": 2.0}})


def test_meta_device() -> None:
    found = single_part(RotaryOptions()).rotate(torch.empty(1, 4, 50, 8, device="meta"), AT.to("meta"), "query")
    assert found.shape == (1, 4, 50, 8)


@pytest.mark.parametrize(
    ("options", "sizes", "place"),
    [
        (RotaryOptions(), {"head_dim": 7}, ("model", "here")),
        (RotaryOptions(rotary_fraction=0.3), {}, ("model", "here", "rotary_fraction")),
        (RotaryOptions(rotary_fraction=0.1), {}, ("model", "here", "rotary_fraction")),
        (RotaryOptions(rotary_fraction=0.25, scaling=NtkOptions(factor=2)), {}, ("model", "here", "scaling")),
        (RotaryOptions(scaling=Llama3Options(low=4, high=2)), {}, ("model", "here", "scaling", "high")),
        (
            RotaryOptions(scaling=YarnOptions(factor=2, original_length=9, fast=1, slow=2)),
            {},
            ("model", "here", "scaling", "fast"),
        ),
    ],
)
def test_what_cannot_turn_is_refused(options: RotaryOptions, sizes: dict[str, int], place: tuple[str, ...]) -> None:
    (problem,) = problems(options, **sizes)
    assert problem.path == place
    assert problem.hint
