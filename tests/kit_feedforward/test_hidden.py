"""Feed-forward layers that treat each token by itself, against their formulas and Hugging Face."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from models.model_checks import check_decoder
from models.single_parts import single_part
from models.tiny_models import build
from transformers import Gemma2Config, LlamaConfig
from transformers.models.gemma2.modeling_gemma2 import Gemma2MLP
from transformers.models.llama.modeling_llama import LlamaMLP

from kit import Options
from kit_attention.softmax import SoftmaxOptions
from kit_feedforward.geglu import GegluOptions
from kit_feedforward.gelu import GeluOptions
from kit_feedforward.glu import GluOptions
from kit_feedforward.reglu import RegluOptions
from kit_feedforward.relu import ReluOptions
from kit_feedforward.silu import SiluOptions
from kit_feedforward.squared_relu import SquaredReluOptions
from kit_feedforward.swiglu import SwigluOptions
from kit_mask.causal import CausalOptions
from kit_norm.layer import LayerOptions
from kit_position.learned import LearnedOptions
from kit_residual.pre import PreOptions


def phi(x: float) -> float:
    return 0.5 * (1 + math.erf(x / 2**0.5))


def phi_tanh(x: float) -> float:
    return 0.5 * (1 + math.tanh((2 / math.pi) ** 0.5 * (x + 0.044715 * x**3)))


def logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x))


PLAIN: dict[str, tuple[Options, Any]] = {
    "relu": (ReluOptions(ffn_multiplier=1.5), lambda x: max(x, 0)),
    "gelu": (GeluOptions(hidden=7), lambda x: x * phi(x)),
    "gelu tanh": (GeluOptions(hidden=7, approximate="tanh"), lambda x: x * phi_tanh(x)),
    "silu": (SiluOptions(hidden=7), lambda x: x * logistic(x)),
    "squared_relu": (SquaredReluOptions(hidden=7, bias=False), lambda x: max(x, 0) ** 2),
}
GATED: dict[str, tuple[Options, Any]] = {
    "glu": (GluOptions(hidden=7), logistic),
    "swiglu": (SwigluOptions(hidden=7, bias=False), lambda x: x * logistic(x)),
    "geglu": (GegluOptions(), lambda x: x * phi(x)),
    "geglu tanh": (GegluOptions(approximate="tanh"), lambda x: x * phi_tanh(x)),
    "reglu": (RegluOptions(ffn_multiplier=1), lambda x: max(x, 0)),
}
X = torch.linspace(-3, 3, 24, dtype=torch.float64).view(4, 6)


def biased(part: Any) -> Any:
    with torch.no_grad():
        for name, parameter in part.named_parameters():
            if name.endswith("bias"):
                parameter.normal_()
    return part


@pytest.mark.parametrize("name", PLAIN)
def test_plain_formula(name: str) -> None:
    options, activation = PLAIN[name]
    part = biased(single_part(options, width=6))
    for row in X:
        hidden = [activation(value) for value in part.up(row).tolist()]
        wanted = part.down(torch.tensor(hidden, dtype=torch.float64))
        assert (part.transform(row) - wanted).abs().max() < 1e-12


@pytest.mark.parametrize("name", GATED)
def test_gated_formula(name: str) -> None:
    """The first half of the fused matrix is the gate, the second what it lets through."""
    options, activation = GATED[name]
    part = biased(single_part(options, width=6))
    for row in X:
        both = part.gate_up(row).tolist()
        half = len(both) // 2
        hidden = [activation(gate) * up for gate, up in zip(both[:half], both[half:], strict=True)]
        wanted = part.down(torch.tensor(hidden, dtype=torch.float64))
        assert (part.transform(row) - wanted).abs().max() < 1e-12


@pytest.mark.parametrize(
    ("theirs", "options"),
    [
        (LlamaMLP(LlamaConfig(hidden_size=32, intermediate_size=20)), SwigluOptions(hidden=20, bias=False)),
        (
            Gemma2MLP(Gemma2Config(hidden_size=32, intermediate_size=20)),
            GegluOptions(hidden=20, bias=False, approximate="tanh"),
        ),
    ],
    ids=["llama", "gemma"],
)
def test_gated_equals_hugging_face(theirs: Any, options: Options) -> None:
    part, theirs = single_part(options), theirs.double()
    with torch.no_grad():
        part.gate_up.weight.copy_(torch.cat([theirs.gate_proj.weight, theirs.up_proj.weight]))
        part.down.weight.copy_(theirs.down_proj.weight)
    x = torch.randn(2, 3, 32, dtype=torch.float64)
    assert (part.transform(x) - theirs(x)).abs().max() < 1e-14


@pytest.mark.parametrize(
    ("options", "width"),
    [
        (SwigluOptions(), 341),
        (SwigluOptions(sizing="ffn_multiplier"), 512),
        (SwigluOptions(sizing="ffn_multiplier", ffn_multiplier=3.5), 448),
        (SwigluOptions(multiple=256), 512),
        (SwigluOptions(multiple=32), 352),
        (SwigluOptions(hidden=100, multiple=32), 100),
        (ReluOptions(), 512),
    ],
)
def test_hidden_width(options: Any, width: int) -> None:
    assert options.ffn_dim(128) == width


def test_equal_sizing_has_as_many_numbers_as_an_ungated_layer() -> None:
    plain, gated = (
        sum(parameter.numel() for parameter in single_part(options, width=96).parameters())
        for options in (GeluOptions(bias=False), GegluOptions(bias=False))
    )
    assert plain == gated


@pytest.mark.parametrize(
    ("feedforward", "count"), [(GeluOptions(bias=False), 804_096), (SwigluOptions(bias=False), 803_584)]
)
def test_shakespeare_parameter_counts(feedforward: Options, count: int) -> None:
    layer = {
        "depth": 4,
        "attention": SoftmaxOptions(heads=4, bias=False),
        "feedforward": feedforward,
        "residual": PreOptions(),
        "masks": (CausalOptions(),),
    }
    model = build(
        "decoder",
        layer,
        width=128,
        vocabulary=65,
        length=64,
        position=LearnedOptions(),
        norm=LayerOptions(bias=False),
        tie="output",
    )
    assert sum(parameter.numel() for parameter in model.parameters()) == count


def test_gate_is_left_out_of_the_value_path() -> None:
    part = single_part(SwigluOptions(hidden=7), width=6)
    up, down = part.value_output_parameters()
    assert torch.equal(up, part.gate_up.weight[7:])
    assert down is part.down.weight


@pytest.mark.parametrize("options", [SwigluOptions(dropout=0.3), SquaredReluOptions(dropout=0.3)])
def test_dropout_only_in_training(options: Options) -> None:
    part, x = single_part(options), torch.randn(50, 32, dtype=torch.float64)
    assert not torch.equal(part.train().transform(x), part.transform(x))
    assert torch.equal(part.eval().transform(x), part.transform(x))


@pytest.mark.parametrize("name", [*PLAIN, *GATED])
def test_whole_model(name: str) -> None:
    options, _ = {**PLAIN, **GATED}[name]
    check_decoder(build("encoder-decoder", {"feedforward": options}))
