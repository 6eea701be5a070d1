"""Laws of data: examples by number, the same in every process, with a fingerprint of all that they depend on."""

from __future__ import annotations

import pickle
import re
from collections.abc import Sequence

from kit.contracts.data import Data, Example
from kit.errors import KitError
from kit.laws.law import broken, law
from kit.laws.subject import Subject

FEW = 8


def _made(subject: Subject) -> Data:
    assert issubclass(subject.component, Data)
    data = subject.component(subject.options)
    data.prepare()
    return data


_PREPARED: list[tuple[Subject, Data]] = []
"""The last one, since all laws ask after the same, and reading may take seconds."""


def _prepared(subject: Subject) -> Data:
    if not _PREPARED or _PREPARED[0][0] is not subject:
        _PREPARED[:] = [(subject, _made(subject))]
    return _PREPARED[0][1]


def _not_here(subject: Subject) -> str | None:
    """Files, networks and packages that are not here are nothing to hold against it."""
    try:
        _prepared(subject)
    except (KitError, OSError, ImportError) as error:
        return f"its data is not here: {str(error).splitlines()[0]}"
    return None


def _first(examples: Sequence[Example]) -> list[Example]:
    return [examples[number] for number in range(min(FEW, len(examples)))]


@law("data", "There is a train split, and every example has what the task says it has.", _not_here, once=True)
def examples(subject: Subject) -> None:
    """A target in pairs, a label in labelled texts."""
    data = _prepared(subject)
    if "train" not in data.splits():
        broken(f"the splits are {', '.join(data.splits())}; train must be one of them")
    for split in data.splits():
        found = data.open(split)
        if not len(found):
            broken(f"the {split} split is empty")
        for number, example in enumerate(_first(found)):
            if not isinstance(example, Example):
                broken(f"{split}[{number}] is {example!r}, wanted an Example")
            lacks = "target" if data.task == "pairs" and example.target is None else None
            lacks = "label" if data.task == "labelled" and example.label is None else lacks
            if lacks:
                broken(f"{split}[{number}] has no {lacks}, and the task is {data.task}")


@law("data", "An example is a function of its number: read again, out of order, and in another process.",
     _not_here, once=True)  # fmt: skip
def by_number(subject: Subject) -> None:
    """A split is pickled on its way to a worker."""
    data, anew = _prepared(subject), _made(subject)
    for split in data.splits():
        found = data.open(split)
        first = _first(found)
        if [found[number] for number in reversed(range(len(first)))][::-1] != first:
            broken(f"{split}: read from the end, the examples are others")
        if _first(pickle.loads(pickle.dumps(found))) != first:
            broken(f"{split}: after the way to another process the examples are others")
        if _first(anew.open(split)) != first:
            broken(f"{split}: opened anew, the examples are others")


@law("data", "The fingerprint is SHA-256 in hexadecimal, and the same each time.", _not_here, once=True)
def fingerprint(subject: Subject) -> None:
    """It is how a run knows that its data has changed."""
    found, again = _prepared(subject).fingerprint(), _made(subject).fingerprint()
    if not re.fullmatch(r"[0-9a-f]{64}", found):
        broken(f"it is {found!r}; wanted 64 hexadecimal digits, as kit.digest_of gives them")
    if found != again:
        broken("asked again of the same data it is another one")
