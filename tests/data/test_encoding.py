import pickle

import numpy as np
import pytest

from kit import DataError, Example, Special
from kit.data.token_store import TokenStore, TokenStoreWriter, encode_documents, encode_split
from kit.data.tokenizers import Tokenizers

A = len(Special)


def test_examples_are_encoded_once_and_then_found(make_data, tokenizers):
    data = make_data(Example("abc", "ba"), Example("", "z"))
    first = encode_split(data, "train", tokenizers)
    opened = data.opened
    again = encode_split(data, "train", tokenizers)
    assert data.opened == opened
    for encoded in (first, again, pickle.loads(pickle.dumps(first))):
        assert [list(encoded.source[i]) for i in range(2)] == [[A, A + 1, A + 2], []]
        assert [list(encoded.target[i]) for i in range(2)] == [[A + 1, A], [A + 25]]
        assert encoded.lengths.tolist() == [[3, 2], [0, 1]]


def test_other_data_or_another_tokenizer_is_encoded_anew(make_data, letters, tokenizers, monkeypatch):
    encode_split(make_data(Example("a", "b")), "train", tokenizers)
    assert list(encode_split(make_data(Example("c", "b")), "train", tokenizers).source[0]) == [A + 2]
    monkeypatch.setattr(letters, "fingerprint", lambda: "other")
    monkeypatch.setattr(letters, "encode_batch", lambda texts: [[A] for _ in texts])
    assert list(encode_split(make_data(Example("c", "b")), "train", tokenizers).source[0]) == [A]


def test_labels_are_numbered_in_order_and_an_unknown_one_is_named(make_data, tokenizers):
    data = make_data(*(Example("a", label=label) for label in ("no", "yes", "maybe", "no")), task="labelled")
    encoded = encode_split(data, "train", tokenizers)
    assert [int(encoded.labels[i][0]) for i in range(4)] == [1, 2, 0, 1]
    data = make_data(Example("a", label="yes"), task="labelled")
    data.labels = lambda: ("no",)
    with pytest.raises(DataError, match=r"example 1 of the train split: the label 'yes' is one that no training.*'no'"):
        encode_split(data, "train", tokenizers)


def test_documents_go_from_start_to_end_and_pieces_of_one_are_joined(make_data, tokenizers):
    data = make_data(Example("ab"), Example("c", continues=True), Example("d"), task="text")
    store = encode_documents(data, "train", tokenizers)
    start, end = Special.START, Special.END
    assert [list(store[i]) for i in range(len(store))] == [[start, A, A + 1, A + 2, end], [start, A + 3, end]]


def test_a_failure_leaves_nothing_half_written(make_data, letters, tokenizers, tmp_path, monkeypatch):
    def broken(texts):
        raise RuntimeError("broken")

    data = make_data(Example("a", "b"))
    with monkeypatch.context() as patch:
        patch.setattr(letters, "encode_batch", broken)
        with pytest.raises(RuntimeError):
            encode_split(data, "train", tokenizers, tmp_path)
    assert list((tmp_path / "encoded").iterdir()) == []
    assert list(encode_split(data, "train", tokenizers, tmp_path).source[0]) == [A]


@pytest.mark.parametrize("vocabulary", [1 << 16, (1 << 16) + 1])
def test_every_id_of_a_vocabulary_is_stored_as_it_is(tmp_path, vocabulary):
    with TokenStoreWriter(tmp_path, "x", vocabulary) as writer:
        writer.write([0, vocabulary - 1])
        writer.end_sequence()
    assert list(TokenStore(tmp_path, "x")[0]) == [0, vocabulary - 1]
    with (
        TokenStoreWriter(tmp_path, "y", vocabulary) as writer,
        pytest.raises(DataError, match=f"gave the id {vocabulary}"),
    ):
        writer.write([vocabulary])


def test_a_store_of_nothing_but_empty_texts(tmp_path):
    with TokenStoreWriter(tmp_path, "x", 10) as writer:
        writer.end_sequence()
    store = TokenStore(tmp_path, "x")
    assert len(store) == 1 and np.array_equal(store[0], [])


def test_one_tokenizer_learns_both_sides_and_two_learn_one_each(make_data, letters, tmp_path):
    data = make_data(Example("a", "b"), Example("c", "d"))
    one = Tokenizers.one(letters)
    one.train(data)
    assert letters.seen == ["a", "b", "c", "d"]
    one.save(tmp_path / "one")
    assert (tmp_path / "one" / "tokenizer.json").exists()
    other = type(letters)(letters.options)
    two = Tokenizers(letters, other)
    two.train(data)
    assert (letters.seen, other.seen) == (["a", "c"], ["b", "d"])
    two.save(tmp_path / "two")
    two.load(tmp_path / "two")
    assert {path.parent.name for path in (tmp_path / "two").rglob("tokenizer.json")} == {"source", "target"}
