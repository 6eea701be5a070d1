"""Models whose attention is shaped: the same in use, trained by one more line of a recipe, pruned by their gates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from models.tiny_models import build
from runs import few_step_runs

from kit import Inspector, collect_losses
from kit_attention.fourier import FourierOptions
from kit_attention.softmax import SoftmaxOptions
from kit_inspect.head_order import HeadOrder
from kit_inspect.head_pruning import prune_heads
from kit_regularizer.disagreement import DisagreementOptions
from kit_regularizer.entropy import EntropyOptions
from kit_regularizer.guided import GuidedOptions

from .shaped import SOURCE, TARGET, shaped


def test_a_shaped_model_computes_the_same_and_is_not_watched_in_use() -> None:
    plain = build("encoder-decoder")
    model = shaped(EntropyOptions(), DisagreementOptions(), GuidedOptions())
    assert torch.equal(model(SOURCE, TARGET), plain(SOURCE, TARGET))
    assert collect_losses(model) == {}
    assert model.encoder.regularizer_hooks.observe(None) is None  # nobody watches, so the fast path is taken
    assert plain.encoder.regularizer_hooks is None
    assert set(model.state_dict()) == set(plain.state_dict())


def test_attention_without_weights_is_left_alone() -> None:
    model = build("encoder", {"attention": FourierOptions()}, regularizers=[EntropyOptions()])
    model.train()(SOURCE)
    assert collect_losses(model) == {}
    one = build("encoder", {"attention": SoftmaxOptions(heads=1)}, regularizers=[DisagreementOptions()])
    one.train()(SOURCE)
    assert collect_losses(one) == {}


def test_a_recipe_with_one_more_line_trains_and_its_gates_prune(
    made_runs: Callable[[str], Any], opened_runs: Callable[[str], Inspector]
) -> None:
    line = "  regularizers: [{use: l0, strength: 0.1, open: 0.0}, {use: entropy, strength: 0.01}]\n"
    recipe = few_step_runs.PAIRS.replace("  norm: layer\n", f"  norm: layer\n{line}").replace(
        "name: pairs", "name: gated"
    )
    run = made_runs(recipe)
    header, first = run.metrics.read_text().splitlines()[:2]
    logged = dict(zip(header.split(","), first.split(","), strict=True))
    assert float(logged["l0"]) > 0 and float(logged["entropy"]) > 0
    inspector = opened_runs(recipe)
    regularizer: Any = inspector.model.regularizers[0]
    with torch.no_grad():
        regularizer.log_odds["encoder_0_attention"].copy_(torch.tensor([9.0, -9.0]))
    given = [inspector.reader.encode(example) for example in inspector.examples("validation", 4)]
    order = HeadOrder.named("gates", few_step_runs.KIT.registry).order(inspector, given)
    assert order[0] == ("encoder.0.attention", 1) and len(order) == 16
    smaller = prune_heads(inspector, [*order[:1], ("encoder.1.attention", 0), ("encoder.1.attention", 1)], given)
    assert smaller.difference < 1e-6
    gates: Any = smaller.model.regularizers[0]
    assert gates.gates()["encoder.0.attention"].tolist() == [1.0] and "encoder.1.attention" not in gates.gates()
