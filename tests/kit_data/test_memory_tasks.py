"""Tasks of memory and look-up, and sentences whose ambiguous words have a known sense."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from kit_data.adding import AddingData, AddingOptions
from kit_data.copy_memory import CopyMemoryData, CopyMemoryOptions
from kit_data.distant_recall import DistantRecallData, DistantRecallOptions
from kit_data.homonyms import PSEUDOWORDS, TOPICS, HomonymsData, HomonymsOptions
from kit_data.two_lookups import TwoLookupsData, TwoLookupsOptions


def test_copy_memory_wants_the_symbols_after_the_silence():
    data = CopyMemoryData(CopyMemoryOptions(distance=7, length=3, symbols=5))
    for example in data.open("test")[:50]:
        words = example.source.split()
        assert words[3:] == ["."] * 7 and " ".join(words[:3]) == example.target
        assert all(word in "01234" for word in words[:3])


def test_adding_wants_the_sum_of_the_two_marked_numbers_one_in_each_half():
    data = AddingData(AddingOptions(distance=11, max_number=6))
    sums = []
    for example in data.open("train")[:300]:
        words = example.source.split()
        marked = [place for place, word in enumerate(words) if word.startswith("+")]
        assert len(words) == 11 and len(marked) == 2 and marked[0] < 5 <= marked[1]
        assert example.target == f"={sum(int(words[place]) for place in marked)}"
        sums.append(int(example.target[1:]))
    share = sum(value == 6 for value in sums) / len(sums)
    assert share == pytest.approx(1 / 7, abs=0.06)  # what always writing the most likely sum would get right


def test_distant_recall_answers_each_question_in_turn():
    data = DistantRecallData(DistantRecallOptions(distance=5, pairs=4, queries=3, keys=6, values=5))
    for example in data.open("validation")[:50]:
        given, _, queries = example.source.partition(" ? ")
        words = given.split()
        values = dict(word.split("=") for word in words[:4])
        assert len(values) == 4 and words[4:] == ["."] * 5
        assert example.target.split() == [values[key] for key in queries.split()]
    with pytest.raises(ValidationError, match="queries"):
        DistantRecallOptions(pairs=2, queries=3)


def test_two_lookups_tells_first_from_second():
    data = TwoLookupsData(TwoLookupsOptions(pairs=3, keys=5, values=4))
    assert data.labels() == ("equal", "less", "more")
    for example in data.open("train")[:100]:
        *given, first, second = example.source.split()
        values = dict(word.split("=") for word in given)
        one, other = int(values[first.removeprefix("first=")]), int(values[second.removeprefix("second=")])
        assert example.label == ("less" if one < other else "more" if one > other else "equal")
    with pytest.raises(ValidationError, match="keys"):
        TwoLookupsOptions(pairs=9, keys=8)


def test_homonyms_hide_the_sense_and_know_it():
    data = HomonymsData(HomonymsOptions())
    originals = {word for pair in PSEUDOWORDS.values() for word in pair}
    texts = [example.source.split() for example in data.open("train")[:300]]
    assert not originals & {word for text in texts for word in text}
    assert set(PSEUDOWORDS) <= {word for text in texts for word in text}
    found = data.occurrences("test", 48)
    assert found == data.occurrences("test", 48)
    for it in found:
        assert it.text.split()[it.word_index] == it.word and it.sense in PSEUDOWORDS[it.word]
    senses = [it.sense for it in found if it.word == "bank"]
    assert senses.count("riverside") == senses.count("lender") == 4


def test_a_sentence_is_about_the_topic_of_its_sense():
    for it in HomonymsData(HomonymsOptions(sentences=2)).occurrences("test", 60):
        topic = next(name for name, words in TOPICS.items() if it.sense in words["noun"])
        verbs = {verb for name, words in TOPICS.items() if name != topic for verb in words["verb"]}
        assert not verbs & set(it.text.split())
