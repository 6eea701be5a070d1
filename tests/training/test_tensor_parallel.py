"""Which parts of a model processes can share, and what is refused."""

from __future__ import annotations

import pytest

from kit import KitError
from kit.distributed.rank_info import RankInfo, with_started_devices
from kit.distributed.tensor_parallel import describe_shards, shardable_parts
from kit.training.preparation import prepare_training
from kit_launch.slurm import SlurmJob

SELF, CROSS, FORWARD = "decoder.0.attention", "decoder.0.cross_attention", "decoder.0.feedforward"
ENCODER = {"encoder.0.attention", "encoder.0.feedforward"}


def divided(tiny, kit, *changes: str, of: int = 2) -> set[str]:
    parts, _ = shardable_parts(prepare_training(tiny(*changes), kit).model, of)
    return {part.build_context.name for part in parts}


@pytest.mark.parametrize(
    ("changes", "whole"),
    [
        ([], set()),
        (["model.decoder.attention={use: softmax, heads: 4, kv_heads: 1}"], {SELF}),
        (["model.decoder.attention={use: softmax, heads: 1}"], {SELF}),
        (["model.decoder.attention={use: softmax, heads: 2, value_lora_rank: 4}"], {SELF}),
        (["model.decoder.attention={use: additive, heads: 2}"], set()),
        (["model.decoder.attention={use: gated, heads: 2}"], {SELF}),
        (["model.decoder.cross_attention={use: talking_heads, heads: 2}"], {CROSS}),
        (["model.decoder.feedforward={use: relu, hidden: 7}"], {FORWARD}),
        (["model.decoder.feedforward={use: swiglu, hidden: 8}"], set()),
        (["model.decoder.feedforward=conv"], {FORWARD}),
        (["model.position=rotary"], set()),
        (["model.decoder.position=alibi"], set()),
        (["model.decoder.position=t5"], set()),
        # What it learns it learns from each head's own queries, for which there is no one sum.
        (["model.decoder.position=shaw"], {SELF, CROSS}),
        (["model.decoder.position=t5", "model.decoder.cross_attention={use: gated, heads: 2}"], {SELF, CROSS}),
        (["model.regularizers=[{use: entropy, where: [cross]}]"], {CROSS}),
        (["model.kept_heads={decoder.0.attention: [1]}"], {SELF}),
    ],
)
def test_parts_that_can_be_shared(tiny, kit, changes: list[str], whole: set[str]):
    assert divided(tiny, kit, *changes) == ENCODER | {SELF, CROSS, FORWARD} - whole


def test_what_stays_whole_is_told(tiny, kit):
    some = prepare_training(tiny("model.decoder.cross_attention={use: talking_heads, heads: 2}"), kit).model
    assert describe_shards(some, 2) == "2 processes share 4 parts; whole in each: decoder.0.cross_attention"
    with pytest.raises(KitError, match="no part of this model can be shared by 5 processes: encoder"):
        describe_shards(some, 5)


def test_three_processes_cannot_share_two_heads(tiny, kit):
    assert divided(tiny, kit, "model.decoder.feedforward={use: relu, hidden: 9}", of=3) == {FORWARD}


def test_other_numbers_of_processes_than_the_recipe_says(tiny):
    recipe = tiny("training.devices=4", "training.strategy=fsdp", "training.tensor_parallel=2")
    assert recipe.training is not None
    with pytest.raises(KitError, match="3 were started on every machine\n    start a multiple of 2"):
        with_started_devices(recipe, RankInfo(0, 3, 0, 3, "127.0.0.1", 1))
    with pytest.raises(KitError, match="ask for a multiple of 2"):
        SlurmJob.of("tiny", recipe.training.model_copy(update={"accelerator": "gpu"}), None, 3)
