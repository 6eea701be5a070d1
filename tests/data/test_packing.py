import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit import DataError, Special
from kit.data.packing import DocumentRows, WindowRows, WindowSampler
from kit.data.samplers import shard_of
from kit.data.token_store import TokenStore, TokenStoreWriter


@pytest.fixture
def stream(tmp_path):
    """Three documents of 4, 2 and 5 tokens: 10 11 12 13, 20 21, 30 31 32 33 34."""

    def make(*documents):
        with TokenStoreWriter(tmp_path, "source", 1000) as writer:
            for ids in documents or ([10, 11, 12, 13], [20, 21], [30, 31, 32, 33, 34]):
                writer.write(ids)
                writer.end_sequence()
        return TokenStore(tmp_path, "source")

    return make


def test_packed_windows_number_documents_and_restart_positions(stream):
    rows = DocumentRows(stream(), 6)
    tokens = rows.sides([2])[0]
    assert tokens.ids.tolist() == [[12, 13, 20, 21, 30, 31, 32]]
    assert tokens.features["document"].tolist() == [[0, 0, 1, 1, 2, 2, 2]]
    assert tokens.features["position"].tolist() == [[0, 1, 0, 1, 0, 1, 2]]
    document = tokens.features["document"]
    assert rows.predicted(2) == int((document[:, 1:] == document[:, :-1]).sum()) == 4
    assert tokens.padding_mask is None


def test_a_window_at_the_end_is_short_and_padded(stream):
    tokens = WindowRows(stream(), 6).sides([6, 0])[0]
    assert tokens.ids.tolist() == [[30, 31, 32, 33, 34, Special.PADDING, Special.PADDING], [10, 11, 12, 13, 20, 21, 30]]
    assert tokens.padding_mask[0].tolist() == [True] * 5 + [False] * 2


@pytest.mark.parametrize("order", ["shuffled", "consecutive"])
@pytest.mark.parametrize("rows_type", [WindowRows, DocumentRows])
def test_every_token_but_the_first_is_predicted_once_an_epoch(stream, order, rows_type):
    rows = rows_type(stream(*([n] * (1 + n % 5) for n in range(40))), 7)
    sampler = WindowSampler(rows, 3, order=order, seed=1)
    for epoch in (0, 1):
        steps = range(epoch * sampler.batches_per_epoch, (epoch + 1) * sampler.batches_per_epoch)
        places = [
            place
            for step in steps
            for offset in sampler.batch_at(step)
            for place in range(offset + 1, rows.stop(offset))
        ]
        assert sorted(places) == list(range(1, len(rows.store.ids)))
        total = sum(sampler.num_predictions_at(step) for step in steps)
        between = 39 if rows_type is DocumentRows else 0
        assert total == len(rows.store.ids) - 1 - between


@given(st.integers(0, 10**6), st.integers(0, 1000))
@settings(deadline=None, max_examples=30)
def test_random_windows_are_a_function_of_seed_and_step(step, seed):
    class Stream:
        ids = np.arange(100)
        offsets = np.array([0, 100])

    rows = WindowRows(Stream(), 10)
    batch = WindowSampler(rows, 8, seed=seed).batch_at(step)
    assert batch == WindowSampler(rows, 8, seed=seed).batch_at(step)
    assert batch != WindowSampler(rows, 8, seed=seed).batch_at(step + 1)
    assert all(rows.predicted(offset) == 10 for offset in batch)


def test_random_windows_reach_both_ends(stream):
    rows = WindowRows(stream(list(range(20))), 8)
    seen = {offset for step in range(50) for offset in WindowSampler(rows, 8).batch_at(step)}
    assert seen == set(range(12))


def test_a_stream_shorter_than_a_window_is_one_window(stream):
    rows = WindowRows(stream([1, 2, 3]), 8)
    for order in ("random", "shuffled", "consecutive"):
        batch = rows[shard_of(WindowSampler(rows, 1, order=order), 0)]
        assert batch.source.ids.tolist() == [[1, 2, 3]]
        assert batch.global_tokens == 2


def test_no_text_at_all_is_refused(stream):
    with pytest.raises(DataError, match="at least two tokens"):
        WindowRows(stream([1]), 8)
