"""Heads are taken out for good, and what is left computes what the masked model computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from models.model_checks import check_decoder
from models.tiny_models import KIT, build, random_tokens, section
from runs import few_step_runs

from kit import Attention, HeadMask, HeadProbe, Inspector, Model, inspect, load_run
from kit.contracts.head_pruning import PrunedHeads
from kit.errors import KitError, RecipeError
from kit.model.builder import ModelBuilder
from kit.training.train import train
from kit_attention.additive import AdditiveOptions
from kit_attention.softmax import SoftmaxOptions
from kit_attention.talking_heads import TalkingHeadsOptions
from kit_attention.window import WindowOptions
from kit_inspect.head_order import HeadOrder
from kit_inspect.head_pruning import prune_heads, save_pruned
from kit_inspect.pruning_curve import forward_seconds, parse_head_count, pruning_curve
from kit_position.alibi import AlibiOptions
from kit_position.rotary import RotaryOptions
from kit_position.t5 import T5Options

KEPT = {
    "encoder.0.attention": [0, 1, 3],
    "encoder.1.attention": [],
    "decoder.0.attention": [2],
    "decoder.1.attention": [1, 2],
    "decoder.0.cross_attention": [3, 1],
    "decoder.1.cross_attention": [],
}
VARIANTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "plain": (SoftmaxOptions(heads=4), {}),
    "grouped": (SoftmaxOptions(heads=4, kv_heads=2), {}),
    "one_group": (SoftmaxOptions(heads=4, kv_heads=1, bias=False), {}),
    "low_rank": (SoftmaxOptions(heads=4, value_lora_rank=5, value_head_dim=6), {}),
    "grouped_low_rank": (SoftmaxOptions(heads=4, kv_heads=2, value_lora_rank=5, output_bias=False), {}),
    "capped": (SoftmaxOptions(heads=4, kv_heads=2, logit_softcap=5.0), {"position": AlibiOptions()}),
    "bias_by_head": (SoftmaxOptions(heads=4, kv_heads=2), {"position": T5Options()}),
    "rotary": (SoftmaxOptions(heads=4), {"position": RotaryOptions()}),
    "additive": (AdditiveOptions(heads=4), {}),
}


def small_of(model: Model, kept: Mapping[str, Sequence[int]], layer: dict[str, Any], **more: Any) -> Model:
    """The same model with only these heads, by hand."""
    state = dict(model.state_dict())
    for name, part in model.named_modules():
        if isinstance(part, Attention) and part.build_context.name in kept:
            left = kept[part.build_context.name]
            found = part.select_heads(left)
            assert found is not None
            own = {key: state.pop(key) for key in list(state) if key.startswith(f"{name}.")}
            if left:
                state |= {f"{name}.{key}": value for key, value in found.items()}
            elif f"{name}.output.bias" in own:
                state[f"{name}.bias"] = own[f"{name}.output.bias"]
    small = ModelBuilder(KIT.registry).model(section("encoder-decoder", layer, kept_heads=kept, **more)).double().eval()
    small.load_state_dict(state)
    return small


def gates(kept: Mapping[str, Sequence[int]], heads: int = 4) -> HeadMask:
    return HeadMask(
        {name: torch.tensor([[float(head in left) for head in range(heads)]]) for name, left in kept.items()}
    )


@pytest.mark.parametrize("name", VARIANTS)
def test_a_model_without_heads_is_the_masked_one(name: str) -> None:
    attention, more = VARIANTS[name]
    layer = {"attention": attention}
    model = build("encoder-decoder", layer, **more)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    small = small_of(model, KEPT, layer, **more)
    source, target = random_tokens(5, 8), random_tokens(4, 6, seed=1)
    with torch.no_grad():
        masked = model(source, target, observer=gates(KEPT))[target.padding_mask]
        assert (masked - small(source, target)[target.padding_mask]).abs().max() < 1e-12
        assert (masked - model(source, target)[target.padding_mask]).abs().max() > 1e-2
    smaller = sum(parameter.numel() for parameter in small.parameters())
    assert smaller < sum(parameter.numel() for parameter in model.parameters())


def test_what_is_left_keeps_every_law_of_a_model() -> None:
    """Padding, steps, beams, watching, gradients; also where kv_heads have lost different numbers of heads."""
    kept = {"decoder.0.attention": [0, 1, 3], "decoder.1.cross_attention": [2], "encoder.1.attention": [0, 2, 3]}
    layer = {"attention": SoftmaxOptions(heads=4, kv_heads=2)}
    check_decoder(small_of(build("encoder-decoder", layer), kept, layer))
    alone = {"attention": WindowOptions(heads=4, size=3, kv_heads=2)}
    plain = section("decoder", alone, kept_heads={"decoder.0.attention": [3]}, position=AlibiOptions())
    torch.manual_seed(0)
    check_decoder(ModelBuilder(KIT.registry).model(plain).double().eval())


def test_groups_that_are_left() -> None:
    assert PrunedHeads((0, 1, 3), 2).kv_heads == (0, 1) and PrunedHeads((0, 1, 3), 2).kv_head_of == (0, 0, 1)
    assert (
        not PrunedHeads((0, 1, 3), 2).is_even
        and PrunedHeads((0, 3), 2).is_even
        and PrunedHeads((4, 5), 2).kv_heads == (2,)
    )
    assert PrunedHeads((), 2).kv_heads == () and PrunedHeads((), 2).is_even


def test_heads_that_were_taken_out_keep_their_numbers_when_more_go() -> None:
    layer = {"attention": SoftmaxOptions(heads=4, kv_heads=2)}
    model = build("encoder-decoder", layer, position=AlibiOptions())
    once = small_of(model, {"encoder.0.attention": [0, 2, 3]}, layer, position=AlibiOptions())
    twice = {"encoder.0.attention": [2, 3]}
    part = next(
        it for it in once.modules() if isinstance(it, Attention) and it.build_context.name == "encoder.0.attention"
    )
    straight = small_of(model, twice, layer, position=AlibiOptions())
    found = part.select_heads([1, 2])
    assert found is not None
    name = "encoder.stack.layers.0.attention."
    for key, value in straight.state_dict().items():
        if key.startswith(name):
            assert torch.equal(value, found[key.removeprefix(name)])


def test_what_cannot_be_cut_is_said() -> None:
    model = build("encoder", {"attention": TalkingHeadsOptions(heads=4)})
    part = next(it for it in model.modules() if isinstance(it, Attention))
    assert part.select_heads([0]) is None
    with pytest.raises(RecipeError, match=r"no attention 'encoder\.9\.attention'; there are encoder\.0\.attention"):
        build("encoder", kept_heads={"encoder.9.attention": [0]})
    with pytest.raises(RecipeError, match=r"are \[0, 7\]; wanted different ones of 0 to 3"):
        build("encoder", kept_heads={"encoder.0.attention": [0, 7]})


def rows(inspector: Inspector, count: int = 6) -> list[Any]:
    return [inspector.reader.encode(example) for example in inspector.examples("validation", count)]


def test_a_pruned_run_is_saved_opened_and_trained_on(pairs: Inspector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kit_loss_plot.callback.plot_losses", lambda run: run)
    assert pairs.loaded_run is not None
    given = rows(pairs)
    going = [("encoder.0.attention", 0), ("encoder.0.attention", 1), ("decoder.0.attention", 1)]
    going += [("decoder.1.cross_attention", 1)]
    smaller = prune_heads(pairs, going, given)
    assert smaller.difference < 1e-6
    run = save_pruned(smaller, pairs.loaded_run, {"by": "hand"})
    assert run.path != pairs.loaded_run.run.path and run.name == "pairs"
    again = load_run(run, few_step_runs.KIT)
    assert again.differences == []
    assert again.recipe.model.kept_heads == {
        "encoder.0.attention": [],
        "decoder.0.attention": [0, 2, 3],
        "decoder.1.cross_attention": [0],
    }
    record, before = inspect(again).record(("1 2 3", "3 2 1")), pairs.record(("1 2 3", "3 2 1"))
    assert record["decoder.0.attention"].heads == 3
    assert record.unseen == {"encoder.0.attention": "all of its heads were taken out"} and before.unseen == {}
    more = prune_heads(inspect(again), [("decoder.0.attention", 1)], given)
    assert more.recipe.model.kept_heads is not None and more.recipe.model.kept_heads["decoder.0.attention"] == [0, 3]
    with pytest.raises(KitError, match="are not those of this recipe"):
        train(few_step_runs.KIT.recipe(run.recipe, ["model.encoder.depth=1"]), few_step_runs.KIT, run)
    changes = ["training.steps=4", "model.regularizers=[{use: l0}]"]
    tuned = train(few_step_runs.KIT.recipe(run.recipe, changes), few_step_runs.KIT, run)
    assert tuned.step == 4
    gated = load_run(run, few_step_runs.KIT)  # with the gates that were put in
    assert len(gated.model.regularizers) == 1
    kept = dict(gated.model.named_parameters())
    change = max(float((kept[name] - value).abs().max()) for name, value in again.model.named_parameters())
    assert 0 < change < 0.1  # it went on from the weights it had


def test_orders_and_the_curve(pairs: Inspector) -> None:
    given = rows(pairs)
    registry = few_step_runs.KIT.registry
    for by in ("importance", "oracle", "mean", "random"):
        order = HeadOrder.named(by, registry).order(pairs, given)
        assert len(order) == len(set(order)) == 16
    with pytest.raises(KitError, match=r"ordered by 'importence'; known: .*oracle.*\n.*did you mean importance"):
        HeadOrder.named("importence", registry)
    order = HeadOrder.named("oracle", registry).order(pairs, given)
    found = pruning_curve(pairs, given, order, points=5, random_orders=2)
    assert found.removed == (0, 4, 8, 12, 16)
    assert found.loss[0] == found.random[0] and found.loss[-1] == pytest.approx(found.random[-1])
    assert all(
        low <= mean <= high for low, mean, high in zip(found.random_low, found.random, found.random_high, strict=True)
    )
    assert len(forward_seconds(pairs, [pairs.model, pairs.model], given, 1)) == 2


def test_an_order_that_knows_puts_a_useless_head_first(pairs: Inspector) -> None:
    with torch.no_grad():
        pairs.model.get_submodule("decoder.stack.layers.1.cross_attention").output.weight[:, :8] = 0
    order = HeadOrder.named("importance", few_step_runs.KIT.registry).order(pairs, rows(pairs))
    assert order[0] == ("decoder.1.cross_attention", 0)
    oracle = HeadOrder.named("oracle", few_step_runs.KIT.registry)
    assert isinstance(oracle.probe, HeadProbe)
    kept = list(oracle.probe.gather(pairs, rows(pairs)))
    assert all(each["decoder.1.cross_attention"][0].abs().max() < 1e-6 for each in kept)


def test_how_many() -> None:
    assert [parse_head_count(words, 16) for words in ("30%", "4", "0", "100%", " 12.5 % ")] == [5, 4, 0, 16, 2]
    for words in ("x", "-3", "17"):
        with pytest.raises(KitError, match="heads"):
            parse_head_count(words, 16)


def test_the_curve_is_shown_and_a_run_written(pairs: Inspector, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from kit.cli.main import app

    assert pairs.loaded_run is not None
    shown = CliRunner().invoke(app, ["prune", str(pairs.loaded_run.run.path), "--heads", "2", "--texts", "4"])
    assert shown.exit_code == 0, shown.output
    assert "0 of 16" in shown.output and "the same as masking" in shown.output and "kit resume pairs/" in shown.output
    table = CliRunner().invoke(app, ["probe", str(pairs.loaded_run.run.path), "--texts", "3", "--only", "entropy"])
    assert table.exit_code == 0, table.output
    assert "encoder.0.attention" in table.output and "head 1" in table.output and "entropy" in table.output
