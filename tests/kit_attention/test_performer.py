"""Random features against the softmax they stand for, and that nothing about them is left to chance."""

from __future__ import annotations

import pytest
import torch
from models.long_sequences import (
    CLOSE,
    check_future_exactly,
    check_gradients,
    check_rows_alone,
    check_steps,
    check_watched,
    run,
    vectors,
)
from models.model_checks import check_decoder, check_encoder
from models.single_parts import build_context, dims, single_part
from models.tiny_models import build

from kit_attention.performer import PerformerOptions, orthogonal_directions
from kit_attention.softmax import SoftmaxOptions
from kit_mask.causal import CausalMask

from .alone import heads


def test_directions_are_orthogonal_and_as_long_as_gaussian_ones() -> None:
    drawn = orthogonal_directions(4000, 16, 0)
    assert drawn.shape == (4000, 16)
    products = drawn[:3984].unflatten(0, (-1, 16)) @ drawn[:3984].unflatten(0, (-1, 16)).transpose(-1, -2)
    assert (products - torch.diag_embed(products.diagonal(dim1=-2, dim2=-1))).abs().max() < CLOSE
    assert abs(drawn.square().sum(-1).mean() - 16) < 0.5
    assert (drawn.T @ drawn / 4000 - torch.eye(16)).abs().max() < 0.15


@pytest.mark.parametrize("mask", [None, CausalMask()])
def test_many_features_come_close_to_softmax_as_noise_does(mask: CausalMask | None) -> None:
    x, real = vectors(1, 60) / 2, torch.ones(1, 60, dtype=torch.bool)
    exact = single_part(SoftmaxOptions(heads=4)).eval()
    wanted = run(exact, x, real, mask)
    counts, errors = (16, 256, 20_000), []
    for features in counts:
        part = single_part(PerformerOptions(heads=4, features=features)).eval()
        part.load_state_dict({**exact.state_dict(), "directions_ME": part.directions_ME})
        errors.append(((run(part, x, real, mask) - wanted).norm() / wanted.norm()).item())
    # The noise of a mean falls with the square root of how many are averaged; a bias would stay.
    assert errors[0] > errors[1] > errors[2]
    assert all(error * count**0.5 < 4 for error, count in zip(errors, counts, strict=True))


def test_weights_are_proportional_to_the_product_of_features() -> None:
    part, x = single_part(PerformerOptions(heads=4, features=10)).eval(), vectors(1, 70)
    q, k, v = heads(part.query_key_value, x[0], (32, 32, 32), (4, 4, 4))
    q, k = (
        torch.exp(each @ part.directions_ME.T * 8**-0.25 - each.square().sum(-1, keepdim=True) * 8**-0.5 / 2)
        for each in (q, k)
    )
    weights = (q @ k.transpose(-1, -2)).tril()
    out = (weights / weights.sum(-1, keepdim=True) @ v).transpose(0, 1).flatten(1)
    wanted = out @ part.output.weight.T + part.output.bias
    found = run(part, x, torch.ones(1, 70, dtype=torch.bool), CausalMask())[0]
    assert (found - wanted).abs().max() < CLOSE


def test_directions_come_from_the_seed_and_the_layer_and_are_saved() -> None:
    def directions(seed: int, layer: int) -> torch.Tensor:
        part = build_context().at(layer=layer).build(PerformerOptions(heads=4, seed=seed), dims())
        return part.state_dict()["directions_ME"]

    torch.manual_seed(1)
    first = directions(0, 0)
    torch.manual_seed(2)
    assert torch.equal(first, directions(0, 0))
    assert not torch.equal(first, directions(0, 1)) and not torch.equal(first, directions(1, 0))


@pytest.mark.parametrize("mask", [None, CausalMask()])
def test_padding_anywhere_changes_nothing(mask: CausalMask | None) -> None:
    part = single_part(PerformerOptions(heads=4, kv_heads=2)).eval()
    check_rows_alone(part, 100, mask)
    check_watched(part, 100, mask)
    check_gradients(part, 100, mask)


def test_the_future_changes_no_bit_of_the_past() -> None:
    check_future_exactly(single_part(PerformerOptions(heads=4)).eval(), 200, CausalMask())


def test_pieces_give_what_the_whole_gives() -> None:
    check_steps(single_part(PerformerOptions(heads=4)).eval(), 21, CausalMask())


def test_large_vectors_stay_finite() -> None:
    part, x = single_part(PerformerOptions(heads=4)).float().eval(), (vectors(1, 50) * 50).float().requires_grad_()
    out = run(part, x, torch.ones(1, 50, dtype=torch.bool), CausalMask())
    out.sum().backward()
    assert out.isfinite().all() and x.grad is not None and x.grad.isfinite().all()


def test_models_with_it_hold_what_models_promise() -> None:
    layer = {"attention": PerformerOptions(heads=4)}
    check_decoder(build("decoder", layer))
    check_decoder(build("encoder-decoder", layer))
    check_encoder(build("encoder", layer))
