import pytest
import torch

from kit import Example, Special
from kit.data.data_loader import ShardSampler
from kit.data.rows import ClassificationRows, PrefixLMRows, Seq2SeqRows
from kit.data.samplers import BatchBudget, BatchShard, BucketSampler, shard_of
from kit.data.token_store import encode_split

A, B, C = (len(Special) + letter for letter in range(3))
PAD, START, END, SEPARATOR = Special.PADDING, Special.START, Special.END, Special.SEPARATOR


def batch_of(rows, *indices):
    return rows[BatchShard(0, indices, 1, len(indices), int(rows.predicted[list(indices)].sum()))]


def test_a_pair_is_a_source_with_an_end_and_a_target_between_start_and_end(make_data, tokenizers):
    rows = Seq2SeqRows(encode_split(make_data(Example("abc", "b"), Example("a", "cb")), "train", tokenizers))
    batch = batch_of(rows, 1, 0)
    assert batch.source.ids.tolist() == [[A, END, PAD, PAD], [A, B, C, END]]
    assert batch.target.ids.tolist() == [[START, C, B, END], [START, B, END, PAD]]
    assert batch.source.padding_mask.tolist() == [[True, True, False, False], [True] * 4]
    assert batch.source.right_padded and batch.source.ids.dtype == torch.long
    assert rows.lengths.tolist() == [[4, 3], [2, 4]] and rows.predicted.tolist() == [2, 3]
    assert (batch.indices, batch.padding, batch.positions, batch.global_tokens) == ((1, 0), 3, 16, 5)


def test_rows_without_padding_say_so(make_data, tokenizers):
    rows = Seq2SeqRows(encode_split(make_data(Example("ab", "b"), Example("ba", "c")), "train", tokenizers))
    assert batch_of(rows, 0, 1).source.padding_mask is None and batch_of(rows, 0, 1).padding == 0


def test_a_prefix_row_marks_what_is_given(make_data, tokenizers):
    rows = PrefixLMRows(encode_split(make_data(Example("ab", "c"), Example("a", "")), "train", tokenizers))
    batch = batch_of(rows, 0, 1)
    assert batch.source.ids.tolist() == [[START, A, B, SEPARATOR, C, END], [START, A, SEPARATOR, END, PAD, PAD]]
    assert batch.source.features["prefix"].tolist() == [[True] * 4 + [False] * 2, [True] * 3 + [False] * 3]
    assert batch.target is None and rows.lengths.tolist() == [[6], [4]] and rows.predicted.tolist() == [2, 1]


def test_a_labelled_text_has_both_ends_and_a_class(make_data, tokenizers):
    data = make_data(Example("ab", label="x"), Example("", label="w"), task="labelled")
    batch = batch_of(ClassificationRows(encode_split(data, "train", tokenizers)), 0, 1)
    assert batch.source.ids.tolist() == [[START, A, B, END], [START, END, PAD, PAD]]
    assert batch.labels.tolist() == [1, 0]


@pytest.mark.parametrize(("world", "accumulate_steps"), [(1, 1), (2, 1), (3, 2), (7, 1)])
def test_scaled_sums_average_to_the_mean_of_the_global_batch_however_it_is_shared(
    make_data, tokenizers, world, accumulate_steps
):
    examples = [Example("a" * (1 + n % 4), "b" * (1 + n % 5)) for n in range(23)]
    rows = Seq2SeqRows(encode_split(make_data(*examples), "train", tokenizers))
    sampler = BucketSampler(rows.lengths, rows.predicted, BatchBudget(60, seed=1))

    def loss(batch):  # any loss that is a sum over predicted tokens: those of the target but the start
        return float(batch.target.ids[:, 1:].double().pow(2).sum())

    for step in range(sampler.batches_per_epoch):
        whole = rows[shard_of(sampler, step)]
        wanted = loss(whole) / int((whole.target.ids[:, 1:] != PAD).sum())
        sums = [
            rows[shard]
            for rank in range(world)
            for shard in ShardSampler(
                sampler, step, step + 1, rank=rank, world=world, accumulate_steps=accumulate_steps
            )
        ]
        assert sum(loss(b) * b.token_scale for b in sums) / len(sums) == pytest.approx(wanted, rel=1e-12)
        assert sum(len(b.indices) * b.row_scale for b in sums) / len(sums) == pytest.approx(1.0, rel=1e-12)


def test_a_batch_moves_with_all_it_has(make_data, tokenizers):
    rows = PrefixLMRows(encode_split(make_data(Example("ab", "c"), Example("a", "")), "train", tokenizers))
    moved = batch_of(rows, 0, 1).to("meta")
    assert moved.source.ids.is_meta and moved.source.padding_mask.is_meta and moved.source.features["prefix"].is_meta
    assert moved.indices == (0, 1)
