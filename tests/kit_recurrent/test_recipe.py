"""The translator of 2015, from its recipe."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from models.model_checks import check_decoder
from models.tiny_models import KIT, random_tokens

from kit.model.builder import ModelBuilder
from kit.recipe.loading import load_recipe

RECIPE = Path(__file__).parents[2] / "recipes" / "known" / "bahdanau.yaml"
SMALL = ["model.width=32", "model.vocabulary=50", "model.encoder.hidden=24", "model.decoder.hidden=24"]


@pytest.mark.parametrize("cells", ["lstm", "gru", "rnn"])
@pytest.mark.parametrize("feed", ["none", "input", "context"])
def test_it_is_a_model_like_any_other(cells: str, feed: str) -> None:
    text = RECIPE.read_text().replace("use: lstm", f"use: {cells}")
    section = load_recipe(text, KIT.registry, [*SMALL, f"model.decoder.feed={feed}"]).recipe.model
    torch.manual_seed(0)
    check_decoder(ModelBuilder(KIT.registry).model(section).double().eval())


def test_its_parameters() -> None:
    """Counted by hand from the formulas; the two tables and the way back to words are most of it."""
    with torch.device("meta"):
        model = ModelBuilder(KIT.registry).model(load_recipe(RECIPE, KIT.registry).recipe.model)
    width, hidden, vocabulary = 620, 1000, 30000
    tables = 3 * vocabulary * width

    def lstm(reads: int) -> int:
        return 4 * hidden * (reads + hidden + 2)

    encoder = 2 * lstm(width) + (2 * hidden + 1) * width
    attention = (hidden + 1) * hidden + (width + 1) * 2 * hidden + hidden + (hidden + 1) * hidden
    decoder = lstm(width + hidden) + (width + 1) * 2 * hidden + attention + (2 * hidden + width + 1) * width
    assert sum(parameter.numel() for parameter in model.parameters()) == tables + encoder + decoder


def test_it_learns_to_reverse() -> None:
    """A minute task: the output is the source backward; what it cannot do without looking at the right token."""
    section = load_recipe(RECIPE, KIT.registry, SMALL).recipe.model
    torch.manual_seed(0)
    model = ModelBuilder(KIT.registry).model(section)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    losses = []
    for step in range(150):
        source = random_tokens(*[5] * 32, vocabulary=12, seed=step).ids
        wanted = source.flip(1)
        given = torch.cat([torch.zeros_like(wanted[:, :1]), wanted[:, :-1]], 1)
        loss = torch.nn.functional.cross_entropy(model(source, given).flatten(0, 1), wanted.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[0] > 3.5
    assert sum(losses[-5:]) / 5 < 0.5
