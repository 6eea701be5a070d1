"""Big Bird's pattern: what each block sees, that padding does not change it, and the numbers against a dense mask."""

from __future__ import annotations

import pytest
import torch
from models.long_sequences import (
    CLOSE,
    check_future_exactly,
    check_gradients,
    check_rows_alone,
    check_watched,
    run,
    vectors,
)
from models.model_checks import check_encoder
from models.single_parts import build_context, dims, problems, single_part
from models.tiny_models import KIT, build, section
from torch import Tensor

from kit import AttentionRecorder, Mask, MaskFeatures, Options, RecipeError
from kit.model.builder import ModelBuilder
from kit_attention.block_sparse import BlockSparseOptions
from kit_attention.softmax import SoftmaxOptions
from kit_mask.causal import CausalMask
from kit_position.alibi import AlibiOptions
from kit_position.rotary import RotaryOptions


def _seen(options: BlockSparseOptions, length: int, layer_part: torch.nn.Module | None = None) -> Tensor:
    """Which blocks each block looks at, by what a watcher sees."""
    part = single_part(options, length=400).eval() if layer_part is None else layer_part
    recorder = AttentionRecorder()
    run(part, vectors(1, length), torch.ones(1, length, dtype=torch.bool), observer=recorder)
    (weights,) = recorder.by_site.values()
    blocks = -(-length // options.size)
    padded = torch.zeros(blocks * options.size, blocks * options.size)
    padded[:length, :length] = weights[0, 0]
    return padded.unflatten(0, (blocks, -1)).unflatten(2, (blocks, -1)).sum((1, 3)) > 0


class _Shown(Mask):
    """A mask given pair by pair."""

    def __init__(self, allowed: Tensor) -> None:
        self.attention_mask = allowed

    def allows(self, q: Tensor, k: Tensor, features: MaskFeatures) -> Tensor:
        return self.attention_mask[None]


def test_a_block_sees_its_neighbours_the_first_and_as_many_others_as_asked() -> None:
    options = BlockSparseOptions(heads=4, size=5, reach=1, global_blocks=2, random_blocks=3)
    seen = _seen(options, 100)
    near = (torch.arange(20)[:, None] - torch.arange(20)).abs() <= 1
    assert seen[:2].all() and seen[:, :2].all() and seen[near].all()
    others = seen & ~near
    assert (others[2:, 2:].sum(1) == 3).all()
    assert others[2:, 2:].any(0).sum() > 12


def test_a_text_too_short_for_so_many_sees_all_there_is() -> None:
    assert _seen(BlockSparseOptions(heads=4, size=5, random_blocks=3), 27).all()


def test_the_seed_and_the_layer_make_the_choice() -> None:
    def seen(seed: int, layer: int) -> Tensor:
        options = BlockSparseOptions(heads=4, size=5, seed=seed)
        return _seen(options, 200, build_context().at(layer=layer).build(options, dims()).double().eval())

    assert torch.equal(seen(0, 0), seen(0, 0))
    assert not torch.equal(seen(0, 0), seen(1, 0)) and not torch.equal(seen(0, 0), seen(0, 1))


@pytest.mark.parametrize("random_blocks", [0, 1, 3])
@pytest.mark.parametrize("global_blocks", [0, 1, 2])
@pytest.mark.parametrize("length", [200, 203])
def test_blocks_give_what_the_same_pattern_gives_as_a_mask(length: int, global_blocks: int, random_blocks: int) -> None:
    options = BlockSparseOptions(heads=4, kv_heads=2, size=7, global_blocks=global_blocks, random_blocks=random_blocks)
    part = single_part(options, length=400).eval()
    dense = single_part(SoftmaxOptions(heads=4, kv_heads=2), length=400).eval()
    dense.load_state_dict(part.state_dict())
    seen = _seen(options, length, part).repeat_interleave(7, 0).repeat_interleave(7, 1)[:length, :length]
    x, real = vectors(1, length), torch.ones(1, length, dtype=torch.bool)
    assert (run(part, x, real) - run(dense, x, real, _Shown(seen))).abs().max() < CLOSE


@pytest.mark.parametrize("mask", [None, CausalMask()])
@pytest.mark.parametrize("length", [12, 220])
def test_padding_anywhere_changes_nothing(length: int, mask: CausalMask | None) -> None:
    part = single_part(BlockSparseOptions(heads=4, kv_heads=2, size=6, random_blocks=2), length=300).eval()
    check_rows_alone(part, length, mask)
    check_watched(part, length, mask)
    check_gradients(part, length, mask)


@pytest.mark.parametrize("options", [RotaryOptions(), AlibiOptions(direction="symmetric")], ids=lambda o: str(o.use))
def test_positions_work_in_blocks(options: Options) -> None:
    part, position = (
        single_part(BlockSparseOptions(heads=4, size=6), length=300).eval(),
        single_part(options, length=300),
    )
    check_rows_alone(part, 200, None, position)
    check_watched(part, 200, None, position)


def test_under_a_causal_mask_the_future_changes_no_bit_of_the_past() -> None:
    check_future_exactly(single_part(BlockSparseOptions(heads=4, size=6), length=300).eval(), 260, CausalMask())


def test_a_text_longer_than_planned_still_works() -> None:
    check_rows_alone(single_part(BlockSparseOptions(heads=4, size=4), length=20).eval(), 120)


def test_a_model_with_it_holds_what_models_promise() -> None:
    check_encoder(build("encoder", {"attention": BlockSparseOptions(heads=4, size=2, random_blocks=1)}))


def test_it_is_refused_where_a_text_is_written() -> None:
    with pytest.raises(RecipeError, match="block_sparse attention cannot go on token by token"):
        ModelBuilder(KIT.registry).model(section("decoder", {"attention": BlockSparseOptions(heads=4, size=2)}))


def test_a_block_longer_than_the_text_is_a_mistake() -> None:
    (problem,) = problems(BlockSparseOptions(heads=4, size=65), length=64)
    assert "65" in problem.message and problem.path[-1] == "size"
