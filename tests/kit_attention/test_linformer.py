"""Linformer against its formula, and that what is hidden enters no mixture."""

from __future__ import annotations

import pytest
import torch
from models.long_sequences import CLOSE, check_gradients, check_rows_alone, check_watched, run, vectors
from models.model_checks import check_encoder
from models.single_parts import problems, single_part
from models.tiny_models import KIT, build, section

from kit import KitError, RecipeError
from kit.model.builder import ModelBuilder
from kit_attention.linformer import LinformerOptions
from kit_mask.causal import CausalMask, CausalOptions

from .alone import heads


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("length", [1, 3, 40])
def test_queries_see_mixtures(length: int, shared: bool) -> None:
    part = single_part(LinformerOptions(heads=4, kv_heads=2, rank=5, shared=shared)).eval()
    x = vectors(1, length)
    q, k, v = heads(part.query_key_value, x[0], (32, 16, 16), (4, 2, 2))
    mix_values = part.mix_keys if shared else part.mix_values
    out = []
    for head in range(4):
        keys = sum(torch.outer(part.mix_keys[:, at], k[head // 2, at]) for at in range(length))
        values = sum(torch.outer(mix_values[:, at], v[head // 2, at]) for at in range(length))
        out.append((q[head] @ keys.T * 8**-0.5).softmax(-1) @ values)
    wanted = torch.cat(out, 1) @ part.output.weight.T + part.output.bias
    assert (run(part, x, torch.ones(1, length, dtype=torch.bool))[0] - wanted).abs().max() < CLOSE


@pytest.mark.parametrize("shared", [False, True])
def test_padding_anywhere_changes_nothing(shared: bool) -> None:
    part = single_part(LinformerOptions(heads=4, kv_heads=2, rank=5, shared=shared)).eval()
    check_rows_alone(part, 40)
    check_watched(part, 40)
    check_gradients(part, 40)


def test_a_model_with_it_holds_what_models_promise() -> None:
    check_encoder(build("encoder", {"attention": LinformerOptions(heads=4, rank=5)}))


def test_writing_and_masks_are_refused() -> None:
    options = LinformerOptions(heads=4, rank=5)
    with pytest.raises(RecipeError, match="linformer attention honours no mask but padding"):
        ModelBuilder(KIT.registry).model(section("decoder", {"attention": options}))
    encoder = section("encoder", {"attention": options})
    encoder = encoder.model_copy(update={"encoder": encoder.encoder.model_copy(update={"masks": [CausalOptions()]})})
    with pytest.raises(RecipeError, match="linformer attention honours no mask but padding"):
        ModelBuilder(KIT.registry).model(encoder)
    with pytest.raises(KitError, match="honours no mask"):
        run(single_part(options), vectors(1, 4), torch.ones(1, 4, dtype=torch.bool), CausalMask())


def test_a_text_longer_than_planned_is_named() -> None:
    with pytest.raises(KitError, match=r"up to 64 tokens, and was given 65.*length: 65"):
        run(single_part(LinformerOptions(heads=4)), vectors(1, 65), torch.ones(1, 65, dtype=torch.bool))


def test_a_rank_past_the_text_is_a_mistake() -> None:
    (problem,) = problems(LinformerOptions(heads=4, rank=65), length=64)
    assert problem.path[-1] == "rank"
