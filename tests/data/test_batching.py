import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit import DataError
from kit.data.data_loader import ShardSampler
from kit.data.samplers import BatchBudget, BucketSampler, shard_of


def sampler(count=500, tokens=200, sides=2, lengths_seed=0, **budget):
    lengths = np.random.default_rng(lengths_seed).integers(1, 30, size=(count, sides))
    return BucketSampler(lengths, lengths[:, -1], BatchBudget(tokens, **budget)), lengths


@given(
    lengths=st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=200),
    tokens=st.integers(80, 500),
    seed=st.integers(0, 2**32),
    shuffle=st.booleans(),
)
@settings(deadline=None, max_examples=60)
def test_an_epoch_has_every_example_once_in_batches_within_the_budget(lengths, tokens, seed, shuffle):
    array = np.array(lengths)
    batches = BucketSampler(array, array[:, 1], BatchBudget(tokens, seed, shuffle=shuffle))
    for epoch in (0, 3):
        first = epoch * batches.batches_per_epoch
        all_of_them = [batches.batch_at(first + place) for place in range(batches.batches_per_epoch)]
        assert sorted(index for batch in all_of_them for index in batch) == list(range(len(lengths)))
        for place, batch in enumerate(all_of_them):
            assert array[batch].max(axis=0).sum() * len(batch) <= tokens
            assert batches.num_predictions_at(first + place) == array[batch, 1].sum()


def test_a_batch_depends_on_the_seed_and_the_step_and_on_nothing_asked_before():
    one, _ = sampler(seed=7)
    steps = [0, one.batches_per_epoch * 2 + 3, 5, 5, one.batches_per_epoch - 1, one.batches_per_epoch]
    for step in steps:
        fresh, _ = sampler(seed=7)
        assert one.batch_at(step) == fresh.batch_at(step)
    other, _ = sampler(seed=8)
    assert any(one.batch_at(step) != other.batch_at(step) for step in range(5))


def test_epochs_put_examples_together_differently_and_evaluation_never_does():
    def companions(batches, epoch):
        count = batches.batches_per_epoch
        return {frozenset(batches.batch_at(step)) for step in range(epoch * count, (epoch + 1) * count)}

    mixed, _ = sampler(seed=1)
    assert len(companions(mixed, 0) & companions(mixed, 1)) < 0.1 * mixed.batches_per_epoch
    fixed, _ = sampler(shuffle=False)
    assert [fixed.batch_at(3)] == [fixed.batch_at(3 + fixed.batches_per_epoch)]


def test_batches_of_an_epoch_do_not_come_in_the_order_of_length():
    batches, lengths = sampler(2000, seed=1)
    means = [lengths[batches.batch_at(step)].mean() for step in range(batches.batches_per_epoch)]
    assert abs(np.corrcoef(means, range(len(means)))[0, 1]) < 0.3


def test_buckets_save_most_of_the_padding():
    batches, lengths = sampler(5000, tokens=500)
    alike = batches.padding_fraction()
    order = np.random.default_rng(0).permutation(5000)
    rows = 500 // 58
    anyhow = [lengths[order[start : start + rows]] for start in range(0, 5000, rows)]
    places = sum(len(batch) * batch.max(axis=0).sum() for batch in anyhow)
    assert alike < 0.25 * (1 - lengths.sum() / places)
    assert sampler(5000, tokens=500, shuffle=False)[0].padding_fraction() < alike


def test_what_is_too_long_is_left_out_or_refused():
    batches, lengths = sampler(max_length=20)
    assert batches.left_out == (lengths > 20).any(axis=1).sum() > 0
    for step in range(batches.batches_per_epoch):
        assert lengths[batches.batch_at(step)].max() <= 20
    with pytest.raises(DataError, match="example 2 has 90 tokens, and a batch may have 64"):
        BucketSampler(np.array([[3], [90]]), np.array([3, 90]), BatchBudget(64))
    with pytest.raises(DataError, match="all 2 are longer than 2"):
        BucketSampler(np.array([[3], [90]]), np.array([3, 90]), BatchBudget(64, max_length=2))


@given(st.integers(1, 9), st.integers(1, 4), st.integers(0, 400))
@settings(deadline=None, max_examples=40)
def test_processes_and_pieces_share_one_global_batch(world, accumulate_steps, step):
    batches, _ = sampler(60, tokens=120, seed=3)
    loaders = [
        ShardSampler(batches, step, step + 2, rank=r, world=world, accumulate_steps=accumulate_steps)
        for r in range(world)
    ]
    shares = [list(loader) for loader in loaders]
    assert all(len(own) == len(loaders[0]) == 2 * accumulate_steps for own in shares)
    for offset in (0, 1):
        here = [share for own in shares for share in own if share.step == step + offset]
        counted = [share for share in here if share.counted]
        rows = [index for share in counted for index in share.indices]
        assert sorted(rows) == sorted(batches.batch_at(step + offset))
        assert max(len(share.indices) for share in counted) - min(len(share.indices) for share in counted) <= 1
        assert all(share.indices and set(share.indices) <= set(rows) for share in here)
        assert {share.num_shards for share in here} == {world * accumulate_steps}


def test_a_resumed_run_goes_on_where_it_was():
    batches, _ = sampler(seed=5)
    whole = list(ShardSampler(batches, 0, 100))
    assert list(ShardSampler(sampler(seed=5)[0], 37, 100)) == whole[37:]
    assert whole[37] == shard_of(batches, 37)
