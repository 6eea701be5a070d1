"""What the tokenizers here share: one of the library inside, special tokens that no text can spell, and JSON."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import tokenizers
from tokenizers import normalizers

from kit import KitError, Options, Special, Tokenizer

SPECIALS = [f"< {special.name.lower()} >" for special in Special]
"""With spaces inside: no model here makes a token with a space in it, so text cannot spell one of these."""


class TextOptions(Options):
    """How text is made uniform before it is cut."""

    lowercase: bool = False
    """Whether capitals become small letters."""
    unicode: Literal["none", "nfc", "nfkc"] = "none"
    """Which Unicode normal form text is brought to; none leaves it as it is."""


class LibraryTokenizer(Tokenizer):
    """A tokenizer of the library; a subclass says how it is built from texts."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._inner: tokenizers.Tokenizer | None = None

    def learn(self, texts: Iterable[str]) -> tokenizers.Tokenizer:
        """A tokenizer of the library, trained on texts, whose vocabulary starts with SPECIALS."""
        raise NotImplementedError

    def train(self, texts: Iterable[str]) -> None:
        """Learn the vocabulary from a stream of texts."""
        with _one_thread():
            self._adopt(self.learn(texts).to_str())

    @property
    def size(self) -> int:
        """How many ids there are, the special ones counted."""
        return int(self.inner.get_vocab_size())

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text."""
        return [encoding.ids for encoding in self.inner.encode_batch_fast(list(texts), add_special_tokens=False)]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of these ids; special tokens are left out, and an unknown one reads «�»."""
        pieces: list[str] = []
        run: list[int] = []
        for number in (*ids, Special.UNKNOWN):
            if number >= len(Special):
                run.append(number)
            elif number == Special.UNKNOWN:
                pieces.append(self.inner.decode(run, skip_special_tokens=False) if run else "")
                run = []
        return self._join(pieces)

    def _join(self, pieces: list[str]) -> str:
        """Runs of known tokens, with an unknown one between each and the next."""
        return "�".join(pieces)

    def token(self, number: int) -> str:
        """How one id is written in a table or a drawing."""
        if number < len(Special):
            return f"<{Special(number).name.lower()}>"
        text = str(self.inner.decode([number], skip_special_tokens=False))
        if "�" in text:  # a piece of a character of several bytes
            text = str(self.inner.id_to_token(number))
        return text.replace(" ", "▁").replace("\n", "↵")

    def save(self, folder: Path) -> None:
        """Write `tokenizer.json`: under another name first, so that it is there whole or not at all."""
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / ".tokenizer.json.part"
        with draft.open("w", encoding="utf-8") as file:
            file.write(self.inner.to_str(pretty=True))
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, folder / "tokenizer.json")

    def load(self, folder: Path) -> None:
        """Become the tokenizer that was saved in the folder."""
        file = folder / "tokenizer.json"
        try:
            self._adopt(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise KitError(f"{file}: cannot read the tokenizer: {error.strerror}") from error
        except KitError:
            raise
        except Exception as error:  # the library raises a bare Exception for whatever it cannot read
            raise KitError(f"{file}: this is not a tokenizer that was saved by a run: {error}") from error

    def fingerprint(self) -> str:
        """SHA-256 of the whole tokenizer."""
        return hashlib.sha256(self.inner.to_str().encode()).hexdigest()

    @property
    def inner(self) -> tokenizers.Tokenizer:
        """The library's tokenizer."""
        if self._inner is None:
            raise KitError(f"the tokenizer {self.part_name()!r} has no vocabulary yet; train or load it first")
        return self._inner

    def _adopt(self, text: str) -> None:
        """Take a tokenizer in the library's JSON, without tokens that it would look for in text: text is only text."""
        content = json.loads(text)
        content["added_tokens"] = []
        inner = tokenizers.Tokenizer.from_str(json.dumps(content))
        found = [inner.id_to_token(number) for number in range(len(SPECIALS))]
        if found != SPECIALS:
            raise KitError(f"a tokenizer whose first tokens are {SPECIALS} was wanted; these are {found}")
        self._inner = inner

    def __getstate__(self) -> dict[str, Any]:
        return {"options": self.options, "_inner": None if self._inner is None else self._inner.to_str()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.options, self._inner = state["options"], None
        if state["_inner"] is not None:
            self._adopt(state["_inner"])


def normalizer(options: TextOptions) -> normalizers.Normalizer:
    """What makes text uniform, as the options say."""
    steps: list[normalizers.Normalizer] = []
    if options.unicode != "none":
        steps.append(normalizers.NFC() if options.unicode == "nfc" else normalizers.NFKC())
    if options.lowercase:
        steps.append(normalizers.Lowercase())
    return normalizers.Sequence(steps)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Sums over threads come in any order; one thread makes the same texts give the same tokenizer."""
    before = os.environ.get("TOKENIZERS_PARALLELISM")
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    try:
        yield
    finally:
        if before is None:
            del os.environ["TOKENIZERS_PARALLELISM"]
        else:
            os.environ["TOKENIZERS_PARALLELISM"] = before
