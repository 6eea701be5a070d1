"""Laws of tokenizers: round trips, deterministic training, saving and loading."""

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


def _training_error(subject: Subject) -> str | None:
    """Returns the error of training on a few words; None without an error."""
    try:
        _trained(subject)
    except KitError as error:
        return str(error).splitlines()[0]
    return None


@law("tokenizer", "Training texts survive a round trip, and no text gives a special token but the unknown one.",
     _training_error)  # fmt: skip
def round_trip(subject: Subject) -> None:
    """Encodes and decodes training texts, unseen ones and an empty one."""
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
    with_special_tokens = [int(Special.START), *tokenizer.encode(TEXTS[0]), int(Special.END), int(Special.PADDING)]
    if tokenizer.decode(with_special_tokens) != tokenizer.decode(tokenizer.encode(TEXTS[0])):
        broken(f"special tokens are not left out of a text: {tokenizer.decode(with_special_tokens)!r}")


@law("tokenizer", "The same texts give the same tokenizer and the same fingerprint.", _training_error)
def deterministic_training(subject: Subject) -> None:
    """Compares ids and fingerprints of two trained tokenizers."""
    one, two = _trained(subject), _trained(subject)
    if one.fingerprint() != two.fingerprint() or one.encode_batch(TEXTS) != two.encode_batch(TEXTS):
        broken("trained twice on the same texts, it gives other ids or another fingerprint")


@law("tokenizer", "Saved and loaded, it gives the same ids, and every id has a written form.", _training_error)
def save_and_load(subject: Subject) -> None:
    """Saves to and loads from `tokenizer.json`, and compares ids and fingerprints."""
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
