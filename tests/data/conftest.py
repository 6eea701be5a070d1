"""Small data and a tokenizer of letters, written here so that the core is tested without any plugin."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

import pytest

from kit import Data, Example, Options, Special, Split, Task, Tokenizer, digest_of
from kit.data.tokenizers import Tokenizers


class ListOptions(Options):
    use: Literal["list"] = "list"
    examples: tuple[Example, ...] = ()
    kind: Task = "pairs"


class ListData(Data):
    options_type = ListOptions
    options: ListOptions
    opened = 0

    @property
    def task(self) -> Task:
        return self.options.kind

    def splits(self) -> tuple[Split, ...]:
        return ("train",)

    def open(self, split: Split) -> Sequence[Example]:
        self.opened += 1
        return list(self.options.examples)

    def fingerprint(self) -> str:
        return digest_of(self.options.model_dump(mode="json"))


class LetterOptions(Options):
    use: Literal["letters"] = "letters"


class LetterTokenizer(Tokenizer):
    options_type = LetterOptions
    size = len(Special) + 26

    def train(self, texts: Iterable[str]) -> None:
        self.seen = list(texts)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [[ord(letter) - ord("a") + len(Special) for letter in text] for text in texts]

    def decode(self, ids: Iterable[int]) -> str:
        return "".join(self.token(number) for number in ids if number >= len(Special))

    def token(self, number: int) -> str:
        return chr(number - len(Special) + ord("a"))

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tokenizer.json").write_text("{}")

    def load(self, folder: Path) -> None:
        (folder / "tokenizer.json").read_text()

    def fingerprint(self) -> str:
        return "letters"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def letters() -> LetterTokenizer:
    return LetterTokenizer(LetterOptions())


@pytest.fixture
def tokenizers(letters: LetterTokenizer) -> Tokenizers:
    return Tokenizers.one(letters)


@pytest.fixture
def make_data():
    def make(*examples: Example, task: Task = "pairs") -> ListData:
        return ListData(ListOptions(examples=examples, kind=task))

    return make
