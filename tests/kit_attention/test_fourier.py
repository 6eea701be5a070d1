"""Fourier mixing against the sum it stands for, each row over its own tokens."""

from __future__ import annotations

import math

import pytest
import torch
from models.long_sequences import CLOSE, check_rows_alone, layout, run, vectors
from models.model_checks import check_encoder
from models.single_parts import single_part
from models.tiny_models import KIT, build, section

from kit import AttentionContext, AttentionRecorder, KitError, RecipeError
from kit.model.builder import ModelBuilder
from kit_attention.fourier import FourierOptions, transform_rows
from kit_mask.causal import CausalMask, CausalOptions


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("length", [1, 2, 7])
def test_it_is_the_real_part_of_a_transform_over_tokens_and_width(length: int, scaled: bool) -> None:
    part, x = single_part(FourierOptions(scaled=scaled), width=6), vectors(1, length, 6)
    wanted = torch.zeros(length, 6, dtype=torch.float64)
    for token in range(length):
        for number in range(6):
            for at in range(length):
                for place in range(6):
                    turn = 2 * math.pi * (token * at / length + number * place / 6)
                    wanted[token, number] += x[0, at, place] * math.cos(turn)
    wanted = wanted / (length * 6) ** 0.5 if scaled else wanted
    assert (run(part, x, torch.ones(1, length, dtype=torch.bool))[0] - wanted).abs().max() < CLOSE
    padded = torch.cat([x, vectors(1, 4, 6, seed=1)], 1)
    found = run(part, padded, torch.arange(length + 4)[None] < length)
    assert (found[0, :length] - wanted).abs().max() < CLOSE and (found[0, length:] == 0).all()


def test_rows_of_any_length_at_once() -> None:
    counts = torch.tensor([1, 2, 31, 97, 128, 200, 256])
    x = vectors(7, 256, 2) * (torch.arange(256)[None] < counts[:, None])[..., None]
    found = transform_rows(x.to(torch.complex128), counts)
    for row, count in enumerate(counts.tolist()):
        assert (found[row, :count] - torch.fft.fft(x[row, :count], dim=0)).abs().max() < CLOSE


@pytest.mark.parametrize("scaled", [False, True])
def test_padding_anywhere_changes_nothing(scaled: bool) -> None:
    check_rows_alone(single_part(FourierOptions(scaled=scaled)), 40)


def test_whole_precision_is_enough_at_length() -> None:
    part, x = single_part(FourierOptions(scaled=True)), vectors(1, 5000)
    exact = run(part, x, torch.ones(1, 5000, dtype=torch.bool))
    padded = torch.cat([x, x[:, :7]], 1).float()
    assert (run(part, padded, torch.arange(5007)[None] < 5000)[:, :5000] - exact).abs().max() < 1e-4


def test_hidden_tokens_get_no_gradient_and_others_the_right_one() -> None:
    part, real = single_part(FourierOptions(), width=4), torch.tensor([[True, False, True, True], [False] * 4])
    place = layout(real)
    x = vectors(2, 4, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda y: part(y, None, AttentionContext(place, place)), (x,))
    run(part, x, real).square().sum().backward()
    assert x.grad is not None and (x.grad[~real] == 0).all() and x.grad[real].all()


def test_a_watcher_is_told_that_there_are_no_weights() -> None:
    recorder = AttentionRecorder()
    run(single_part(FourierOptions()), vectors(1, 3), torch.ones(1, 3, dtype=torch.bool), observer=recorder)
    assert not recorder.by_site and len(recorder.unseen) == 1


def test_half_precision_works() -> None:
    part, x = single_part(FourierOptions(scaled=True)), vectors(2, 9)
    exact = run(part, x, torch.ones(2, 9, dtype=torch.bool))
    half = run(part, x.bfloat16(), torch.ones(2, 9, dtype=torch.bool))
    assert half.dtype == torch.bfloat16 and (half - exact).abs().max() < 0.05


def test_a_model_with_it_holds_what_models_promise() -> None:
    check_encoder(build("encoder", {"attention": FourierOptions()}))


def test_writing_and_masks_are_refused() -> None:
    with pytest.raises(RecipeError, match="fourier attention honours no mask but padding"):
        ModelBuilder(KIT.registry).model(section("decoder", {"attention": FourierOptions()}))
    encoder = section("encoder", {"attention": FourierOptions()})
    encoder = encoder.model_copy(update={"encoder": encoder.encoder.model_copy(update={"masks": [CausalOptions()]})})
    with pytest.raises(RecipeError, match="fourier attention honours no mask but padding"):
        ModelBuilder(KIT.registry).model(encoder)
    with pytest.raises(KitError, match="honours no mask"):
        run(single_part(FourierOptions()), vectors(1, 4), torch.ones(1, 4, dtype=torch.bool), CausalMask())
