"""Laws of tokenizers: ids and back, learnt the same way each time, and saved with the run."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from kit.contracts.tokenizer import Special, Tokenizer
from kit.errors import KitError
from kit.laws.law import broken, law
from kit.laws.subject import Subject

TEXTS = ("the cat sat on the mat", "a cat and a dog", "the dog sat down", "on and on and on", "a mat", "the end")


def _trained(subject: Subject) -> Tokenizer:
    assert issubclass(subject.component, Tokenizer)
    tokenizer = subject.component(subject.options)
    tokenizer.train(iter(TEXTS * 3))
    return tokenizer


def _refuses(subject: Subject) -> str | None:
    """Options that a few words are too little for are none to try."""
    try:
        _trained(subject)
    except KitError as error:
        return str(error).splitlines()[0]
    return None


@law("tokenizer", "What it learnt from comes back as it was, and no text gives a special token but the unknown one.",
     _refuses)  # fmt: skip
def there_and_back(subject: Subject) -> None:
    """Also for texts that it has never seen, and for none."""
    tokenizer = _trained(subject)
    for text in (*TEXTS, "zebras über alles", "<end> <pad>", ""):
        ids = tokenizer.encode(text)
        wrong = [number for number in ids if not 0 <= number < tokenizer.size]
        special = [number for number in ids if number < len(Special) and number != Special.UNKNOWN]
        if wrong or special:
            broken(f"{text!r} gives the id {(wrong or special)[0]}; wanted {len(Special)} to {tokenizer.size - 1}")
        if text in TEXTS and Special.UNKNOWN not in ids and tokenizer.decode(ids) != text:
            broken(f"{text!r} comes back as {tokenizer.decode(ids)!r}")
    if tokenizer.encode_batch(list(TEXTS)) != [tokenizer.encode(text) for text in TEXTS]:
        broken("texts give other ids together than one by one")
    marked = [int(Special.START), *tokenizer.encode(TEXTS[0]), int(Special.END), int(Special.PADDING)]
    if tokenizer.decode(marked) != tokenizer.decode(tokenizer.encode(TEXTS[0])):
        broken(f"special tokens are not left out of a text: {tokenizer.decode(marked)!r}")


@law("tokenizer", "The same texts give the same tokenizer, and its fingerprint says so.", _refuses)
def same_again(subject: Subject) -> None:
    """Ids, size and fingerprint."""
    one, two = _trained(subject), _trained(subject)
    if one.fingerprint() != two.fingerprint() or one.encode_batch(TEXTS) != two.encode_batch(TEXTS):
        broken("learnt twice from the same texts, it gives other ids or another fingerprint")


@law("tokenizer", "Saved and loaded, it gives the same ids, and every id can be written in a table.", _refuses)
def saving(subject: Subject) -> None:
    """Through `tokenizer.json`."""
    one = _trained(subject)
    assert issubclass(subject.component, Tokenizer)
    two = subject.component(subject.options)
    with TemporaryDirectory() as folder:
        one.save(Path(folder))
        if not (Path(folder) / "tokenizer.json").is_file():
            broken("save writes no tokenizer.json")
        two.load(Path(folder))
    if two.size != one.size or two.encode_batch(TEXTS) != one.encode_batch(TEXTS):
        broken("loaded, it gives other ids")
    if two.fingerprint() != one.fingerprint():
        broken("loaded, it has another fingerprint")
    for number in range(two.size):
        if not isinstance(two.token(number), str):
            broken(f"token {number} is written {two.token(number)!r}, which is no text")
