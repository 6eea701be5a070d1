import gzip
import pickle

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kit import DataError
from kit_data import documents


def test_a_whole_file_is_one_document_cut_by_position(make, file):
    text = "".join(f"line {number}\n" for number in range(100))
    data = make("plain_text", train=file("a.txt", text), test_fraction=0.2)
    assert data.splits() == ("train", "validation", "test") and data.task == "text"
    parts = ["".join(example.source for example in data.open(split)) for split in data.splits()]
    assert "".join(parts) == text
    assert [round(len(part) / len(text), 2) for part in parts] == [0.7, 0.1, 0.2]


@given(st.text(min_size=40, max_size=400), st.integers(4, 64), st.integers(0, 8))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
def test_pieces_of_any_text_join_to_the_text(make, file, text, size, reach):
    name = file("a.txt", text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents, "CHUNK_BYTES", size)
        patch.setattr(documents, "BOUNDARY_REACH", min(reach, size - 4))
        data = make("plain_text", train=name)
        pieces = [*data.open("train"), *data.open("validation")]
    assert "".join(piece.source for piece in pieces) == text.removeprefix("\ufeff")
    assert all(len(piece.source.encode()) <= 2 * size for piece in pieces)


def test_only_later_pieces_continue_a_document(make, file, monkeypatch):
    monkeypatch.setattr(documents, "CHUNK_BYTES", 10)
    monkeypatch.setattr(documents, "BOUNDARY_REACH", 6)
    examples = make("plain_text", train=file("a.txt", "some words on a line\n" * 5)).open("train")
    assert [example.continues for example in examples] == [False] + [True] * (len(examples) - 1)
    assert examples[0].source == "some "


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_documents_stand_between_blank_lines_or_are_lines(make, file, end):
    text = end.join(["", "one", "two", "", "", "three", "", "four"]) + end
    name = file("a.txt", gzip.compress(text.encode()))
    data = make("plain_text", train=name, documents="blank_line", validation_fraction=0.34)
    examples = data.open("train")
    assert [example.source for example in examples] == [f"one{end}two"]
    assert [example.source for example in pickle.loads(pickle.dumps(examples))] == [f"one{end}two"]
    assert [example.source for example in data.open("validation")] == ["three", "four"]
    lines = make("plain_text", train=name, documents="line", validation_fraction=0.5)
    assert [example.source for split in lines.splits() for example in lines.open(split)] == [
        "one",
        "two",
        "three",
        "four",
    ]


def test_validation_may_have_a_file_of_its_own(make, file):
    data = make("plain_text", train=file("a.txt", "all of it"), validation=file("v.txt", "other"))
    assert [example.source for split in data.splits() for example in data.open(split)] == ["all of it", "other"]
    assert data.splits() == ("train", "validation")


def test_what_leaves_nothing_is_refused(make, file):
    with pytest.raises(DataError, match="leave nothing to train on"):
        make("plain_text", train=file("a.txt", "abc"), validation_fraction=0.5, test_fraction=0.5).prepare()
    with pytest.raises(DataError, match=r"a\.txt: no text is left for the train split"):
        make("plain_text", train=file("a.txt", "one line"), documents="line").prepare()
    with pytest.raises(DataError, match="there is no test split"):
        make("plain_text", train="a.txt").open("test")


def test_tiny_shakespeare_is_split_as_nine_tenths_and_one(make, shared):
    data = make("plain_text", folder=shared / "tinyshakespeare", train="input.txt")
    sizes = [sum(len(example.source) for example in data.open(split)) for split in data.splits()]
    assert sizes == [1_003_854, 111_540]
