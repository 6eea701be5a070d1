"""The tasks that are drawn: right answers, disjoint splits, the same examples for the same seed."""

import pickle

import pytest
from pydantic import ValidationError

from kit import DataError

TASKS = ["copy", "reverse", "sort", "addition", "recall", "listops"]
SMALL = {"train": 300, "validation": 60, "test": 60}
every = pytest.mark.parametrize("name", TASKS)


@every
def test_examples_are_a_function_of_the_seed_and_their_number(make, name):
    data, again = make(name, **SMALL), make(name, **SMALL)
    examples = data.open("train")
    assert [examples[i] for i in (250, 3, 3)] == [again.open("train")[i] for i in (250, 3, 3)]
    assert list(pickle.loads(pickle.dumps(examples))[:20]) == list(examples[:20])
    assert list(make(name, seed=1, **SMALL).open("train")[:20]) != list(examples[:20])
    assert make(name, seed=1, **SMALL).fingerprint() != data.fingerprint() == again.fingerprint()
    assert len(examples) == 300 and examples[-1] == examples[299]


@every
def test_no_source_is_in_two_splits(make, name):
    data = make(name, **SMALL)
    data.prepare()
    sources = {split: {example.source for example in data.open(split)} for split in data.splits()}
    assert not sources["train"] & (sources["validation"] | sources["test"])
    assert not sources["validation"] & sources["test"]


@every
def test_answers_are_right(make, name):
    right = {
        "copy": lambda source: source,
        "reverse": lambda source: " ".join(reversed(source.split())),
        "sort": lambda source: " ".join(sorted(source.split(), key=int)),
        "addition": lambda source: str(sum(map(int, source.split("+")))),
        "recall": lambda source: (words := source.split())[words.index(words[-1]) + 1],
        "listops": value_of,
    }[name]
    for example in make(name, **SMALL).open("train"):
        assert (example.target or example.label) == right(example.source)


def value_of(source):
    """Reads the notation with a stack, unlike the generator, which builds it."""
    stack = [[]]
    for symbol in source.split():
        if symbol == "]":
            operator, *values = stack.pop()
            values.sort()
            middle = (values[(len(values) - 1) // 2] + values[len(values) // 2]) // 2
            stack[-1].append({"[MIN": values[0], "[MAX": values[-1], "[MED": middle, "[SM": sum(values) % 10}[operator])
        elif symbol.startswith("["):
            stack.append([symbol])
        else:
            stack[-1].append(int(symbol))
    assert len(stack) == len(stack[0]) == 1
    return str(stack[0][0])


def test_test_sequences_can_be_longer_than_any_trained_on(make):
    data = make("copy", min_length=2, max_length=5, test_max_length=9, **SMALL)
    lengths = {split: {len(example.source.split()) for example in data.open(split)} for split in data.splits()}
    assert lengths == {"train": {2, 3, 4, 5}, "validation": {2, 3, 4, 5}, "test": {6, 7, 8, 9}}
    sums = make("addition", digits=2, test_digits=4, **SMALL)
    max_length = [max(map(len, example.source.split("+"))) for example in sums.open("test")]
    assert min(max_length) == 3 and max(max_length) == 4


def test_listops_keeps_to_its_limits_and_names_all_ten_classes(make):
    data = make("listops", max_depth=2, max_args=3, max_length=12, **SMALL)
    for example in data.open("train"):
        assert len(example.source.split()) <= 12
    assert data.labels() == tuple("0123456789") and data.task == "labelled"


def test_a_task_that_is_too_small_for_three_splits_says_so(make):
    with pytest.raises(DataError, match=r"copy: 10000 draws gave no example for the .* split"):
        make("copy", symbols=1, max_length=1).prepare()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("copy", {"min_length": 5, "max_length": 4}),
        ("sort", {"max_length": 9, "test_max_length": 9}),
        ("addition", {"digits": 3, "test_digits": 2}),
        ("recall", {"pairs": 5, "keys": 4}),
    ],
)
def test_options_that_contradict_each_other_are_refused(make, name, options):
    with pytest.raises(ValidationError, match="must"):
        make(name, **options)
