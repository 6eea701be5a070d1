"""Every residual against the formula of its paper, with sublayers that are plain functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from models.tiny_models import KIT
from torch import Tensor

from kit import BuildContext, Dims, Options
from kit.model.builder import ModelBuilder
from kit_norm.layer import LayerOptions
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

WIDTH = 8
NAMES = ("attention", "cross_attention", "feedforward")
CONTEXT = BuildContext(
    ModelBuilder(KIT.registry), stack="decoder", depth=6, sublayers=NAMES, inherited={"norm": LayerOptions()}
)
Function = Callable[[Tensor], Tensor]
FUNCTIONS: Sequence[Function] = (torch.sin, lambda x: x.flip(-1) * 0.5, lambda x: x.cumsum(-1).tanh())
FIRST, SECOND, THIRD = FUNCTIONS


def build(options: Options, **place: Any) -> Any:
    """The part in float64, each of its parameters moved so that no two norms are alike."""
    torch.manual_seed(0)
    part = replace(CONTEXT, **place).build(options, Dims(WIDTH)).double().eval()
    with torch.no_grad():
        for parameter in part.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return part


@pytest.fixture
def x() -> Tensor:
    torch.manual_seed(1)
    return torch.randn(2, 5, WIDTH, dtype=torch.float64)


def same(found: Tensor, wanted: Tensor) -> bool:
    return found.shape == wanted.shape and bool((found - wanted).abs().max() < 1e-12)


def test_post(x: Tensor) -> None:
    part = build(PostOptions())
    n = list(part.norms.values())
    y = n[0](x + FIRST(x))
    y = n[1](y + SECOND(y))
    assert same(part(x, FUNCTIONS), n[2](y + THIRD(y)))
    assert not part.final_norm


def test_pre(x: Tensor) -> None:
    part = build(PreOptions())
    n = list(part.norms.values())
    y = x + FIRST(n[0](x))
    y = y + SECOND(n[1](y))
    assert same(part(x, FUNCTIONS), y + THIRD(n[2](y)))
    assert part.final_norm


def test_sandwich(x: Tensor) -> None:
    part = build(SandwichOptions())
    before, after = list(part.norms_before.values()), list(part.norms_after.values())
    y = x + after[0](FIRST(before[0](x)))
    y = y + after[1](SECOND(before[1](y)))
    assert same(part(x, FUNCTIONS), y + after[2](THIRD(before[2](y))))


def test_swin(x: Tensor) -> None:
    part = build(SwinOptions())
    n = list(part.norms.values())
    y = x + n[0](FIRST(x))
    y = y + n[1](SECOND(y))
    assert same(part(x, FUNCTIONS), y + n[2](THIRD(y)))


def test_parallel_with_one_norm(x: Tensor) -> None:
    part = build(ParallelOptions())
    (norm,) = part.norms.values()
    y = norm(x)
    assert same(part(x, FUNCTIONS), x + FIRST(y) + SECOND(y) + THIRD(y))


def test_parallel_with_a_norm_for_each(x: Tensor) -> None:
    part = build(ParallelOptions(norms="each"))
    n = list(part.norms.values())
    assert same(part(x, FUNCTIONS), x + FIRST(n[0](x)) + SECOND(n[1](x)) + THIRD(n[2](x)))


@pytest.mark.parametrize("weights", ["sublayer", "layer"])
def test_rezero(x: Tensor, weights: Any) -> None:
    part = build(RezeroOptions(weights=weights))
    a, b, c = part.weights.tolist() if weights == "sublayer" else part.weights.tolist() * 3
    y = x + a * FIRST(x)
    y = y + b * SECOND(y)
    assert same(part(x, FUNCTIONS), y + c * THIRD(y))
    new = CONTEXT.build(RezeroOptions(weights=weights), Dims(WIDTH))
    assert new.starts_as_identity and torch.equal(new(x, FUNCTIONS), x)


def test_layerscale(x: Tensor) -> None:
    part = build(LayerscaleOptions())
    n, s = list(part.norms.values()), list(part.scales.values())
    y = x + s[0] * FIRST(n[0](x))
    y = y + s[1] * SECOND(n[1](y))
    assert same(part(x, FUNCTIONS), y + s[2] * THIRD(n[2](y)))


@pytest.mark.parametrize(("depth", "start"), [(1, 0.1), (18, 0.1), (19, 1e-5), (24, 1e-5), (25, 1e-6), (48, 1e-6)])
def test_layerscale_begins_as_the_paper_says(depth: int, start: float) -> None:
    part = replace(CONTEXT, depth=depth).build(LayerscaleOptions(), Dims(WIDTH))
    assert all(torch.equal(scale, torch.full((WIDTH,), start)) for scale in part.scales.values())
    chosen = replace(CONTEXT, depth=depth).build(LayerscaleOptions(start=0.5), Dims(WIDTH))
    assert all(scale.eq(0.5).all() for scale in chosen.scales.values())


def test_deepnorm(x: Tensor) -> None:
    part = build(DeepnormOptions())
    n = list(part.norms.values())
    alpha = 12**0.25
    y = n[0](alpha * x + FIRST(x))
    y = n[1](alpha * y + SECOND(y))
    assert same(part(x, FUNCTIONS), n[2](alpha * y + THIRD(y)))


@pytest.mark.parametrize(
    ("stack", "depths", "alpha", "beta"),
    [
        ("encoder", {"encoder": 6}, 12**0.25, 48**-0.25),
        ("decoder", {"decoder": 12}, 24**0.25, 96**-0.25),
        ("encoder", {"encoder": 6, "decoder": 18}, 0.81 * (6**4 * 18) ** (1 / 16), 0.87 * (6**4 * 18) ** (-1 / 16)),
        ("decoder", {"encoder": 6, "decoder": 18}, 54**0.25, 216**-0.25),
    ],
)
def test_deepnorm_reckons_with_both_depths(stack: str, depths: dict[str, int], alpha: float, beta: float) -> None:
    part = build(DeepnormOptions(), stack=stack, depth=depths[stack], depths=depths)
    assert (part.alpha, part.beta) == pytest.approx((alpha, beta), rel=1e-12)


def test_dual(x: Tensor) -> None:
    part = build(DualOptions(), layer=5)
    n = list(part.norms.values())
    a, b = x, x
    for norm, function in zip(n, FUNCTIONS, strict=True):
        y = function(a)
        a, b = norm(a + y), b + y
    stream = part(part.begin_stream(x), FUNCTIONS)
    assert same(stream[..., 0, :], a) and same(stream[..., 1, :], b)
    assert same(part.end_stream(stream), a + part.joining_norm(b))
    assert build(DualOptions(), layer=4).joining_norm is None


@pytest.mark.parametrize("connections", ["static", "dynamic"])
def test_hyper(x: Tensor, connections: Any) -> None:
    """Each token by itself, with the paper's matrices: h = A_m' H; H' = B' T(h) + A_r' H."""
    part = build(HyperOptions(streams=3, connections=connections), layer=1)
    found = part.end_stream(part(part.begin_stream(x), FUNCTIONS))
    for row in range(2):
        for place in range(5):
            streams = x[row, place].repeat(3, 1)
            for name, function in zip(NAMES, FUNCTIONS, strict=True):
                tie = part.connections[name]
                mix, give = tie.reading, tie.writing
                if connections == "dynamic":
                    normed = tie.norm(streams)
                    mix = mix + tie.reading_scale * torch.tanh(normed @ tie.reading_change)
                    give = give + tie.writing_scale * torch.tanh(normed @ tie.writing_change)
                read = sum(mix[s, 0] * streams[s] for s in range(3))
                carried = [sum(mix[s, 1 + t] * streams[s] for s in range(3)) for t in range(3)]
                y = function(part.norms[name](read))
                streams = torch.stack([carried[t] + give[t] * y for t in range(3)])
            assert same(found[row, place], streams.sum(0))


@pytest.mark.parametrize("connections", ["static", "dynamic"])
def test_hyper_begins_as_pre_norm(x: Tensor, connections: Any) -> None:
    """The streams are then all equal to the one stream of pre-norm, whichever of them a sublayer reads."""
    for layer in range(3):
        build_context = replace(CONTEXT, layer=layer)
        hyper = build_context.build(HyperOptions(streams=4, connections=connections), Dims(WIDTH)).double()
        pre = build_context.build(PreOptions(), Dims(WIDTH)).double()
        assert same(hyper.end_stream(hyper(hyper.begin_stream(x), FUNCTIONS)), 4 * pre(x, FUNCTIONS))


def test_hyper_reads_another_stream_in_every_sublayer() -> None:
    chosen = []
    for layer in range(2):
        part = replace(CONTEXT, layer=layer).build(HyperOptions(streams=4), Dims(WIDTH))
        chosen += [int(tie.reading[:, 0].argmax()) for tie in part.connections.values()]
    assert chosen == [0, 1, 2, 3, 0, 1]


@pytest.mark.parametrize(
    "options", [PreOptions(), DualOptions(), HyperOptions(), ParallelOptions()], ids=lambda o: o.use
)
def test_packed_tokens_are_treated_alike(x: Tensor, options: Options) -> None:
    part = build(options, layer=5)
    packed = part.end_stream(part(part.begin_stream(x.flatten(0, 1)), (torch.sin,) * 3))
    assert same(packed.view(2, 5, WIDTH), part.end_stream(part(part.begin_stream(x), (torch.sin,) * 3)))
