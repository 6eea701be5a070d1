"""Nyström attention against its formula with an exact inverse, on real tokens only, and never with a mask."""

from __future__ import annotations

import pytest
import torch
from models.long_sequences import CLOSE, check_gradients, check_rows_alone, check_watched, run, vectors
from models.model_checks import check_encoder
from models.single_parts import problems, single_part
from models.tiny_models import KIT, build, section
from transformers import NystromformerConfig
from transformers.models.nystromformer.modeling_nystromformer import NystromformerSelfAttention

from kit import AttentionRecorder, KitError, RecipeError
from kit.model.builder import ModelBuilder
from kit_attention.nystrom import NystromOptions, pseudoinverse
from kit_attention.softmax import SoftmaxOptions
from kit_mask.causal import CausalMask, CausalOptions
from kit_position.rotary import RotaryOptions

from .alone import heads


@pytest.mark.parametrize("taps", [None, 1, 5])
def test_it_is_the_formula_of_the_paper(taps: int | None) -> None:
    part = single_part(NystromOptions(heads=4, kv_heads=2, landmarks=4, iterations=40, taps=taps)).eval()
    x = vectors(1, 32) * 2
    q, k, v = heads(part.query_key_value, x[0], (32, 16, 16), (4, 2, 2))
    out = []
    for head in range(4):
        keys, values = k[head // 2], v[head // 2]
        marks_q, marks_k = q[head].view(4, 8, -1).mean(1), keys.view(4, 8, -1).mean(1)
        to = (q[head] @ marks_k.T * 8**-0.5).softmax(-1)
        between = torch.linalg.pinv((marks_q @ marks_k.T * 8**-0.5).softmax(-1))
        mixed = to @ between @ (marks_q @ keys.T * 8**-0.5).softmax(-1) @ values
        for at in range(32):
            for tap in range(taps or 0):
                other = at + tap - taps // 2
                if 0 <= other < 32:
                    mixed[at] = mixed[at] + part.taps_HW[head, tap] * values[other]
        out.append(mixed)
    wanted = torch.cat(out, 1) @ part.output.weight.T + part.output.bias
    assert (run(part, x, torch.ones(1, 32, dtype=torch.bool))[0] - wanted).abs().max() < 1e-8


def test_it_gives_what_the_published_model_gives() -> None:
    config = NystromformerConfig(
        hidden_size=32,
        num_attention_heads=4,
        num_landmarks=4,
        segment_means_seq_len=32,
        conv_kernel_size=5,
        attention_probs_dropout_prob=0.0,
    )
    torch.manual_seed(0)
    theirs = NystromformerSelfAttention(config).double().eval()
    # Theirs starts the inverse from one bound for the whole batch by default; this is its per-matrix way.
    theirs.init_option = "exact"
    ours = single_part(NystromOptions(heads=4, landmarks=4, taps=5)).eval()
    pieces = (theirs.query, theirs.key, theirs.value)
    ours.load_state_dict(
        {
            "query_key_value.weight": torch.cat([piece.weight for piece in pieces]),
            "query_key_value.bias": torch.cat([piece.bias for piece in pieces]),
            "output.weight": torch.eye(32),
            "output.bias": torch.zeros(32),
            "taps_HW": theirs.conv.weight[:, 0, :, 0],
        }
    )
    x = vectors(2, 32)
    assert (run(ours, x, torch.ones(2, 32, dtype=torch.bool)) - theirs(x)[0]).abs().max() < CLOSE


@pytest.mark.parametrize("landmarks", [12, 20])
def test_with_a_landmark_for_each_token_it_is_softmax(landmarks: int) -> None:
    part = single_part(NystromOptions(heads=4, landmarks=landmarks, iterations=60, taps=None)).eval()
    exact = single_part(SoftmaxOptions(heads=4)).eval()
    exact.load_state_dict(part.state_dict())
    x, real = vectors(1, 12) * 2, torch.ones(1, 12, dtype=torch.bool)
    assert (run(part, x, real) - run(exact, x, real)).abs().max() < 1e-8


def test_the_inverse_of_each_matrix_is_its_own_and_zeros_stay() -> None:
    matrices = (vectors(2, 3, 3) + 3 * torch.eye(3)).softmax(-1)
    matrices[1, 2], matrices[1, :, 2] = 0, 0
    found = pseudoinverse(matrices, 30)
    assert (found - torch.linalg.pinv(matrices)).abs().max() < 1e-8
    assert torch.equal(pseudoinverse(matrices[:1], 6), pseudoinverse(matrices, 6)[:1])


@pytest.mark.parametrize("length", [2, 9, 50])
def test_padding_anywhere_changes_nothing(length: int) -> None:
    part = single_part(NystromOptions(heads=4, kv_heads=2, landmarks=6, taps=5)).eval()
    check_rows_alone(part, length)
    check_watched(part, length)
    check_rows_alone(part, length, None, single_part(RotaryOptions()))
    if length > 2:
        check_gradients(part, length)


def test_half_precision_stays_close() -> None:
    part, x = single_part(NystromOptions(heads=4, landmarks=6)).float().eval(), vectors(2, 50).float()
    exact = run(part, x, torch.ones(2, 50, dtype=torch.bool))
    with torch.autocast("cpu", torch.bfloat16):
        close = run(part, x, torch.ones(2, 50, dtype=torch.bool))
    assert (close.float() - exact).abs().max() < 0.1 * exact.abs().max()


def test_a_model_with_it_holds_what_models_promise() -> None:
    check_encoder(build("encoder", {"attention": NystromOptions(heads=4, landmarks=3, taps=3)}))


def test_it_cannot_be_given_a_mask_to_leak_through() -> None:
    options = NystromOptions(heads=4, landmarks=3)
    with pytest.raises(RecipeError, match="nystrom attention honours no mask but padding") as caught:
        ModelBuilder(KIT.registry).model(section("decoder", {"attention": options}))
    assert "nystrom attention cannot go on token by token" in str(caught.value)
    encoder = section("encoder", {"attention": options})
    encoder = encoder.model_copy(update={"encoder": encoder.encoder.model_copy(update={"masks": [CausalOptions()]})})
    with pytest.raises(RecipeError, match="nystrom attention honours no mask but padding"):
        ModelBuilder(KIT.registry).model(encoder)
    for watched in (False, True):
        observer = {"observer": AttentionRecorder()} if watched else {}
        with pytest.raises(KitError, match="it would show what the mask hides"):
            run(single_part(options), vectors(1, 4), torch.ones(1, 4, dtype=torch.bool), CausalMask(), **observer)


def test_bad_options_are_mistakes() -> None:
    assert problems(NystromOptions(heads=4, taps=4))[0].path[-1] == "taps"
    assert problems(NystromOptions(heads=4, landmarks=65), length=64)[0].path[-1] == "landmarks"
    assert problems(NystromOptions(heads=4, dropout=0.1))[0].path[-1] == "dropout"
