import pytest
import torch
from lightning_fabric.utilities import move_data_to_device

from kit import Example
from kit.data.data_loader import ShardSampler, make_loader
from kit.data.packing import DocumentRows, WindowSampler
from kit.data.rows import Seq2SeqRows
from kit.data.samplers import BatchBudget, BucketSampler, shard_of
from kit.data.token_store import encode_documents, encode_split
from kit.sequence.batch import Batch


def same(left, right):
    assert left.step == right.step and left.indices == right.indices
    for a, b in ((left.source, right.source), (left.target, right.target)):
        assert (a is None) == (b is None)
        if a is not None:
            assert torch.equal(a.ids, b.ids)
            assert all(torch.equal(a.features[name], b.features[name]) for name in a.features)


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_give_the_batches_that_one_process_gives_from_any_step(make_data, tokenizers, workers):
    examples = [Example("abc"[: 1 + n % 3], "z" * (1 + n % 7)) for n in range(50)]
    rows = Seq2SeqRows(encode_split(make_data(*examples), "train", tokenizers))
    sampler = BucketSampler(rows.lengths, rows.predicted, BatchBudget(80, seed=3))
    alone = list(make_loader(rows, ShardSampler(sampler, 0, 20, rank=1, world=2)))
    assert [batch.step for batch in alone] == list(range(20))
    loaded = list(make_loader(rows, ShardSampler(sampler, 9, 20, rank=1, world=2), workers=workers))
    for one, other in zip(alone[9:], loaded, strict=True):
        same(one, other)


def test_windows_go_through_workers_with_their_facts(make_data, tokenizers):
    data = make_data(*(Example("abcde"[: 1 + n % 5]) for n in range(30)), task="text")
    rows = DocumentRows(encode_documents(data, "train", tokenizers), 12)
    shares = ShardSampler(WindowSampler(rows, 4, seed=1), 0, 5)
    for one, other in zip(make_loader(rows, shares), make_loader(rows, shares, workers=1), strict=True):
        same(one, other)
        assert set(one.source.features) == {"document", "position"}


def test_lightning_moves_a_batch_as_it_moves_tensors(make_data, tokenizers):
    rows = Seq2SeqRows(encode_split(make_data(Example("a", "b"), Example("ab", "b")), "train", tokenizers))
    sampler = BucketSampler(rows.lengths, rows.predicted, BatchBudget(80))
    moved = move_data_to_device(rows[shard_of(sampler, 0)], torch.device("meta"))
    assert isinstance(moved, Batch) and moved.source.ids.is_meta and moved.source.padding_mask.is_meta


def test_loading_leaves_the_random_state_of_the_model_alone(make_data, tokenizers):
    rows = Seq2SeqRows(encode_split(make_data(Example("a", "b")), "train", tokenizers))
    sampler = BucketSampler(rows.lengths, rows.predicted, BatchBudget(80))
    before = torch.get_rng_state()
    list(make_loader(rows, ShardSampler(sampler, 0, 3)))
    assert torch.equal(torch.get_rng_state(), before)
