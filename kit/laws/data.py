"""Laws of data: deterministic examples by index, equal in every process, with a fingerprint."""

from __future__ import annotations

import pickle
import re
from collections.abc import Sequence

from kit.contracts.data import Data, Example
from kit.errors import KitError
from kit.laws.law import broken, law
from kit.laws.subject import Subject

MAX_EXAMPLES = 8


def _data(subject: Subject) -> Data:
    assert issubclass(subject.component, Data)
    data = subject.component(subject.options)
    data.prepare()
    return data


_PREPARED: list[tuple[Subject, Data]] = []
"""A cache of the last subject with its data, because reading may take seconds."""


def _prepared(subject: Subject) -> Data:
    if not _PREPARED or _PREPARED[0][0] is not subject:
        _PREPARED[:] = [(subject, _data(subject))]
    return _PREPARED[0][1]


def _unavailable(subject: Subject) -> str | None:
    """Returns why the data cannot be read here: missing files, packages or network."""
    try:
        _prepared(subject)
    except (KitError, OSError, ImportError) as error:
        return (
            f"its data is not here: {str(error).splitlines()[0]}\n"
            "    name data that is here, in the class: examples = ({...},)"
        )
    return None


def _first_examples(examples: Sequence[Example]) -> list[Example]:
    return [examples[number] for number in range(min(MAX_EXAMPLES, len(examples)))]


@law("data", "There is a train split, and every example has the fields of the task.", _unavailable, once=True)
def examples(subject: Subject) -> None:
    """Checks for a target if the task is pairs, and for a label if it is labelled."""
    data = _prepared(subject)
    if "train" not in data.splits():
        broken(f"the splits are {', '.join(data.splits())}; train must be one of them")
    for split in data.splits():
        found = data.open(split)
        if not len(found):
            broken(f"the {split} split is empty")
        for number, example in enumerate(_first_examples(found)):
            if not isinstance(example, Example):
                broken(f"{split}[{number}] is {example!r}, wanted an Example")
            missing = "target" if data.task == "pairs" and example.target is None else None
            missing = "label" if data.task == "labelled" and example.label is None else missing
            if missing:
                broken(f"{split}[{number}] has no {missing}, and the task is {data.task}")


@law("data", "An example only depends on its index: repeated, out of order and in another process it is the same.",
     _unavailable, once=True)  # fmt: skip
def determinism(subject: Subject) -> None:
    """Reads examples backwards, after pickling (as for a worker process), and from a new instance."""
    data, reopened = _prepared(subject), _data(subject)
    for split in data.splits():
        found = data.open(split)
        first = _first_examples(found)
        if [found[number] for number in reversed(range(len(first)))][::-1] != first:
            broken(f"{split}: read from the end, the examples differ")
        if _first_examples(pickle.loads(pickle.dumps(found))) != first:
            broken(f"{split}: after pickling, the examples differ")
        if _first_examples(reopened.open(split)) != first:
            broken(f"{split}: opened again, the examples differ")


@law("data", "The fingerprint is a SHA-256 in hexadecimal, and deterministic.", _unavailable, once=True)
def fingerprint(subject: Subject) -> None:
    """Compares the fingerprints of two instances; a run detects changed data by it."""
    found, again = _prepared(subject).fingerprint(), _data(subject).fingerprint()
    if not re.fullmatch(r"[0-9a-f]{64}", found):
        broken(f"it is {found!r}; wanted 64 hexadecimal digits, as kit.digest_of gives them")
    if found != again:
        broken("the same data has another fingerprint the second time")
