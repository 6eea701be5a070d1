"""What `kit explain` says is true: counts equal the built model, and costs equal what can be worked out by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from models.tiny_models import KIT, section

from kit import ModelSection, Recipe
from kit.explain.explanation import explain
from kit.recipe.difference import changes
from kit_attention.softmax import SoftmaxOptions
from kit_feedforward.relu import ReluOptions
from kit_mask.causal import CausalOptions
from kit_norm.layer import LayerOptions
from kit_position.learned import LearnedOptions
from kit_residual.pre import PreOptions
from kit_stack.options import TransformerOptions

SMALL: dict[str, dict[str, Any]] = {
    "textbook": {},
    "encoder": {"family": "encoder"},
    "decoder": {"family": "decoder"},
    "tied": {"tie": "all"},
    "untied": {"tie": "none"},
    "learned": {"position": LearnedOptions()},
    "pre": {"layer": {"residual": PreOptions()}},
    "normed": {"embedding_norm": True},
    "low rank": {"layer": {"attention": SoftmaxOptions(heads=4, kv_heads=2, value_lora_rank=3)}},
}


@pytest.mark.parametrize("name", SMALL)
def test_parameters_equal_the_built_model(name: str) -> None:
    recipe = Recipe(name="small", model=section(**SMALL[name]))
    explanation = explain(recipe, KIT.registry)
    built = sum(parameter.numel() for parameter in KIT.build(recipe).parameters())
    assert explanation.cost.parameters == built
    assert explanation.tree.parameters == built


def decoder(depth: int, width: int, heads: int, kv_heads: int, hidden: int, vocabulary: int) -> ModelSection:
    return ModelSection(
        family="decoder",
        width=width,
        vocabulary=vocabulary,
        length=64,
        norm=LayerOptions(),
        tie="none",
        decoder=TransformerOptions(
            depth=depth,
            attention=SoftmaxOptions(heads=heads, kv_heads=kv_heads, bias=False),
            feedforward=ReluOptions(hidden=hidden, bias=False),
            residual=PreOptions(),
            masks=[CausalOptions()],
        ),
    )


def test_costs_are_what_can_be_worked_out_by_hand() -> None:
    depth, width, heads, kv_heads, hidden, vocabulary, length = 3, 32, 4, 2, 48, 100, 64
    model = decoder(depth, width, heads, kv_heads, hidden, vocabulary)
    cost = explain(Recipe(name="counted", model=model), KIT.registry).cost
    grouped = kv_heads * width // heads
    matrices = depth * (width * (width + 2 * grouped) + width * width + 2 * width * hidden) + width * vocabulary
    scores_and_values = depth * 2 * width * length
    assert cost.flops_per_token == 2 * (matrices + scores_and_values)
    assert cost.cache_bytes_per_token == depth * 2 * grouped * 4
    assert cost.fixed_cache_bytes == 0
    assert cost.training_state_bytes == cost.parameters * 16


def test_a_memory_is_projected_once() -> None:
    """The fixed state of an encoder-decoder is the projected memory of each decoder layer."""
    cost = explain(Recipe(name="crossing", model=section()), KIT.registry).cost
    assert cost.fixed_cache_bytes == 2 * 2 * 32 * 4 * cost.length
    assert cost.cache_bytes_per_token == 2 * 2 * 32 * 4


def test_activations_grow_with_the_model() -> None:
    small = explain(Recipe(name="small", model=decoder(2, 32, 4, 2, 64, 100)), KIT.registry).cost
    deep = explain(Recipe(name="deep", model=decoder(4, 32, 4, 2, 64, 100)), KIT.registry).cost
    assert small.activation_bytes < deep.activation_bytes < 2 * small.activation_bytes


def test_seventy_billion_parameters_fit_in_little_memory(tmp_path: Path) -> None:
    recipe = tmp_path / "large.yaml"
    recipe.write_text(
        "name: large\n"
        "model: {family: decoder, width: 8192, vocabulary: 128256, length: 8192, tie: none, norm: layer,\n"
        "  decoder: {depth: 80, attention: {use: softmax, heads: 64, kv_heads: 8, bias: false}, residual: pre,\n"
        "    feedforward: {use: relu, hidden: 43008, bias: false}, masks: [causal]}}\n"
    )
    code = (
        "import sys, kit.cli, kit.kernels.allocator\n"
        f"sys.argv = ['kit', 'explain', {str(recipe)!r}, '--json']\n"
        "try:\n    kit.cli.main()\n"
        "finally:\n    print(kit.kernels.allocator.peak_memory(), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["cost"]["parameters"] == 70_555_025_408
    assert int(done.stderr.split()[-1]) < 1_000_000_000


def test_changes_are_listed_leaf_by_leaf() -> None:
    before = {"model": {"width": 64, "norm": {"use": "a"}, "masks": ["x"]}}
    after = {"model": {"width": 128, "norm": {"use": "a", "epsilon": 0.1}, "masks": ["x", "y"]}}
    found = [(change.path, change.before, change.after) for change in changes(before, after)]
    assert found == [("model.width", 64, 128), ("model.norm.epsilon", "—", 0.1), ("model.masks[1]", "—", "y")]
