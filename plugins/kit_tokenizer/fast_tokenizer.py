"""Base class of tokenizers that the Hugging Face `tokenizers` library backs: normalization, special tokens, JSON."""

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

SPECIAL_TOKENS = [f"< {special.name.lower()} >" for special in Special]
"""Special tokens contain spaces, which no model here puts inside a token: no text encodes to a special token."""


class NormalizerOptions(Options):
    """Options of the normalizer, which runs before the pre-tokenizer."""

    lowercase: bool = False
    """Whether text is lowercased."""
    unicode: Literal["none", "nfc", "nfkc"] = "none"
    """The Unicode normalization form; none leaves text as it is."""


class FastTokenizer(Tokenizer):
    """A tokenizer backed by the `tokenizers` library; a subclass trains the backend."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._backend: tokenizers.Tokenizer | None = None

    def train_backend(self, texts: Iterable[str]) -> tokenizers.Tokenizer:
        """Trains the backend on texts; its vocabulary starts with SPECIAL_TOKENS."""
        raise NotImplementedError

    def train(self, texts: Iterable[str]) -> None:
        """Train the vocabulary on a stream of texts, in one thread."""
        with _single_threaded():
            self._load_json(self.train_backend(texts).to_str())

    @property
    def size(self) -> int:
        """The vocabulary size, including special tokens."""
        return int(self.backend.get_vocab_size())

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode texts to token ids."""
        return [encoding.ids for encoding in self.backend.encode_batch_fast(list(texts), add_special_tokens=False)]

    def decode(self, ids: Iterable[int]) -> str:
        """Decode token ids; special tokens are skipped, and UNKNOWN becomes «�»."""
        runs: list[str] = []
        run_ids: list[int] = []
        for token_id in (*ids, Special.UNKNOWN):
            if token_id >= len(Special):
                run_ids.append(token_id)
            elif token_id == Special.UNKNOWN:
                runs.append(self.backend.decode(run_ids, skip_special_tokens=False) if run_ids else "")
                run_ids = []
        return self._join(runs)

    def _join(self, runs: list[str]) -> str:
        """Joins decoded runs of known tokens with the unknown token."""
        return "�".join(runs)

    def token(self, number: int) -> str:
        """The string of one id for tables and plots."""
        if number < len(Special):
            return f"<{Special(number).name.lower()}>"
        text = str(self.backend.decode([number], skip_special_tokens=False))
        if "�" in text:  # an incomplete UTF-8 sequence
            text = str(self.backend.id_to_token(number))
        return text.replace(" ", "▁").replace("\n", "↵")

    def save(self, folder: Path) -> None:
        """Write `tokenizer.json` atomically."""
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / ".tokenizer.json.part"
        with draft.open("w", encoding="utf-8") as file:
            file.write(self.backend.to_str(pretty=True))
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, folder / "tokenizer.json")

    def load(self, folder: Path) -> None:
        """Load the tokenizer that was saved in the folder."""
        file = folder / "tokenizer.json"
        try:
            self._load_json(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise KitError(f"{file}: cannot read the tokenizer: {error.strerror}") from error
        except KitError:
            raise
        except Exception as error:  # the library raises a bare Exception for invalid JSON
            raise KitError(f"{file}: this is not a tokenizer that was saved by a run: {error}") from error

    def fingerprint(self) -> str:
        """SHA-256 of the serialized backend."""
        return hashlib.sha256(self.backend.to_str().encode()).hexdigest()

    @property
    def backend(self) -> tokenizers.Tokenizer:
        """The tokenizer of the `tokenizers` library."""
        if self._backend is None:
            raise KitError(f"the tokenizer {self.name()!r} has no vocabulary yet; train or load it first")
        return self._backend

    def _load_json(self, serialized: str) -> None:
        """Loads the backend from JSON, without added tokens: special tokens are never matched in text."""
        content = json.loads(serialized)
        content["added_tokens"] = []
        backend = tokenizers.Tokenizer.from_str(json.dumps(content))
        first_tokens = [backend.id_to_token(token_id) for token_id in range(len(SPECIAL_TOKENS))]
        if first_tokens != SPECIAL_TOKENS:
            raise KitError(f"a tokenizer whose first tokens are {SPECIAL_TOKENS} was wanted; these are {first_tokens}")
        self._backend = backend

    def __getstate__(self) -> dict[str, Any]:
        return {"options": self.options, "_backend": None if self._backend is None else self._backend.to_str()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.options, self._backend = state["options"], None
        if state["_backend"] is not None:
            self._load_json(state["_backend"])


def build_normalizer(options: NormalizerOptions) -> normalizers.Normalizer:
    """Builds the normalizer of these options."""
    steps: list[normalizers.Normalizer] = []
    if options.unicode != "none":
        steps.append(normalizers.NFC() if options.unicode == "nfc" else normalizers.NFKC())
    if options.lowercase:
        steps.append(normalizers.Lowercase())
    return normalizers.Sequence(steps)


@contextmanager
def _single_threaded() -> Iterator[None]:
    """Disables threads of the library, whose order of summation is not deterministic."""
    before = os.environ.get("TOKENIZERS_PARALLELISM")
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    try:
        yield
    finally:
        if before is None:
            del os.environ["TOKENIZERS_PARALLELISM"]
        else:
            os.environ["TOKENIZERS_PARALLELISM"] = before
