"""Stochastic depth: which texts skip which layers in training, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from models.tiny_models import build, random_tokens
from torch import Tensor

from kit import BatchLayout, TokenBatch
from kit_residual.dual import DualOptions
from kit_residual.pre import PreOptions
from kit_stack.layer import stochastic_depth


def streams(model: Any, tokens: TokenBatch, packed: bool) -> list[Tensor]:
    """The stream before each layer and after the last, rows first and padded."""
    layout = BatchLayout.of(tokens).packed() if packed else BatchLayout.of(tokens)
    kept: list[Tensor] = []
    stack = model.decoder.stack
    hooks = [layer.register_forward_pre_hook(lambda _, x: kept.append(x[0].detach())) for layer in stack.layers]
    hooks.append(stack.final_norm.register_forward_pre_hook(lambda _, x: kept.append(x[0].detach())))
    torch.manual_seed(3)
    model.decoder(tokens, layout)
    for hook in hooks:
        hook.remove()
    return [layout.pad(x) for x in kept]


@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
def test_a_text_skips_a_layer_as_a_whole_or_takes_a_longer_step(packed: bool) -> None:
    layer = {"depth": 4, "drop_layers": 0.8, "residual": PreOptions()}
    model = build("decoder", layer=layer).train()
    tokens = random_tokens(3, 8, 5, 8, 1, 7)
    assert tokens.padding_mask is not None
    found = streams(model, tokens, packed)
    stack = model.decoder.stack
    skipped = 0
    for number, part in enumerate(stack.layers):
        before, after = found[number], found[number + 1]
        from kit import AttentionContext

        layout = BatchLayout.of(tokens)
        plain = part(
            before, AttentionContext(layout, layout, stack.masks[stack.context_keys[number][0]]), None, None, None
        )
        factor = 1 / (1 - 0.8 * (number + 1) / 4)
        for row in range(6):
            real = tokens.padding_mask[row]
            if torch.equal(after[row, real], before[row, real]):
                skipped += 1
            else:
                wanted = before + factor * (plain - before)
                assert (after[row, real] - wanted[row, real]).abs().max() < 1e-10
    assert 4 < skipped < 20


def test_packed_and_padded_texts_skip_the_same_layers() -> None:
    for residual in (PreOptions(), DualOptions()):
        layer = {"depth": 4, "drop_layers": 0.5, "residual": residual}
        model = build("decoder", layer=layer).train()
        tokens = random_tokens(3, 8, 5, left=True)
        torch.manual_seed(5)
        padded = model(target=tokens)[tokens.padding_mask]
        torch.manual_seed(5)
        assert (model(target=tokens, packed=True) - padded).abs().max() < 1e-10


def test_layers_are_skipped_more_the_later_they_are_and_the_mean_is_the_layer() -> None:
    layout = BatchLayout.of(TokenBatch(torch.zeros(20_000, 1, dtype=torch.long)))
    before, after = torch.ones(20_000, 1, 1), torch.full((20_000, 1, 1), 3.0)
    torch.manual_seed(0)
    for chance in (0.1, 0.5):
        out = stochastic_depth(before, after, layout, chance)
        assert abs((out == 1).double().mean() - chance) < 0.02
        assert abs(out.mean() - 3.0) < 0.05


def test_nothing_is_skipped_outside_training() -> None:
    plain = build("decoder", layer={"depth": 3})
    skipping = build("decoder", layer={"depth": 3, "drop_layers": 0.9})
    assert torch.equal(plain(random_tokens(5, 5)), skipping(random_tokens(5, 5)))
    assert not torch.equal(plain.train()(random_tokens(5, 5)), skipping.train()(random_tokens(5, 5)))
