"""Texts as a model of a run reads them: which tokens stand at their ends, and what the decoder is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from kit.contracts.data import Example
from kit.contracts.objective import Form
from kit.contracts.tokenizer import Special, Tokenizer
from kit.data.batch import Batch
from kit.data.rows import padded
from kit.data.tokenizing import Tokenizers
from kit.errors import KitError
from kit.inspecting.record import AttentionRecord, TokenRow
from kit.tokens import Tokens

Given: TypeAlias = "str | tuple[str, str] | Example"
"""A text; a source and its target; or an example of the data."""

FORMS: dict[str, Form] = {"encoder-decoder": "pairs", "encoder": "texts", "decoder": "windows"}
"""What rows are where a run does not say what it was trained on."""


@dataclass(frozen=True)
class Ids:
    """One text, as ids without the tokens at its ends."""

    source: tuple[int, ...]
    target: tuple[int, ...] | None = None
    label: int | None = None


@dataclass(frozen=True)
class Reader:
    """Makes batches of texts as training did."""

    tokenizers: Tokenizers
    form: Form
    length: int
    """The longest row the model is made for."""
    labels: tuple[str, ...] = ()
    """The classes by their numbers."""
    facts: frozenset[str] = frozenset()
    """What the masks of the model want to know of every token; in a text by itself these are all 0."""

    @property
    def writes(self) -> bool:
        """Whether a text has a target, which the model can write where none is given."""
        return self.form in ("pairs", "prefixed")

    @property
    def follows(self) -> bool:
        """Whether each token is read to predict the next one."""
        return self.form not in ("texts", "blocks")

    def ids(self, given: Given) -> Ids:
        """The ids of a text, however long it is."""
        example = as_example(given)
        target = None
        if self.writes and example.target is not None:
            target = tuple(self.tokenizers.target.encode(example.target))
        label = self.labels.index(example.label) if example.label in self.labels else None
        return Ids(tuple(self.tokenizers.source.encode(example.source)), target, label)

    def encode(self, given: Given) -> Ids:
        """The ids of a text that the model can read whole."""
        ids, source = self.ids(given), as_example(given).source
        if not self.fits(ids):
            short = source if len(source) < 60 else source[:57] + "…"
            raise KitError(f"{short!r} is longer than the {self.length} tokens that the model is made for")
        return ids

    def ids_of(self, record: AttentionRecord) -> Ids:
        """The text of a record as ids."""
        text = [number for row in (record.source, record.target) if row is not None for number in row.ids]
        if self.form == "pairs":
            assert record.source is not None and record.target is not None
            return Ids(_text(record.source.ids), _text(record.target.ids))
        if self.form == "prefixed":
            middle = text.index(Special.SEPARATOR)
            return Ids(_text(text[:middle]), _text(text[middle:]))
        return Ids(_text(text))

    def fits(self, ids: Ids) -> bool:
        """Whether a text is within the length that the model is made for."""
        sides = [len(ids.source) + 1, len(ids.target or ()) + 1]
        longest = max(sides) if self.form == "pairs" else sum(sides)
        return longest <= self.length

    def batch(self, rows: Sequence[Ids], device: torch.device | None = None) -> Batch:
        """Rows as the objective of the run wants them; a target that is missing is one of no tokens."""
        sources = [np.asarray(row.source, dtype=np.int64) for row in rows]
        targets = [np.asarray(row.target or (), dtype=np.int64) for row in rows]
        target: Tokens | None = None
        if self.form == "pairs":
            source = padded([_framed(ids, [], [Special.END]) for ids in sources])
            target = padded([_framed(ids, [Special.START], [Special.END]) for ids in targets])
        elif self.form == "prefixed":
            heads = [_framed(ids, [Special.START], [Special.SEPARATOR]) for ids in sources]
            whole = [_framed(np.concatenate(pair), [], [Special.END]) for pair in zip(heads, targets, strict=True)]
            flags = [np.arange(len(row)) < len(head) for row, head in zip(whole, heads, strict=True)]
            source = padded(whole, prefix=flags)
        else:
            source = padded([_framed(ids, [Special.START], [Special.END]) for ids in sources])
        source, target = self._told(source), None if target is None else self._told(target)
        labels = None if any(row.label is None for row in rows) else torch.tensor([row.label for row in rows])
        count = len(rows)
        batch = Batch(source, target, labels, 0, tuple(range(count)), 1, count, 0)
        return batch if device is None else batch.to(device)

    def prompt(self, rows: Sequence[Ids], device: torch.device) -> Tokens:
        """What a model of one stack reads before it writes the target of a pair."""
        framed = [_framed(np.asarray(row.source, dtype=np.int64), [Special.START], [Special.SEPARATOR]) for row in rows]
        tokens = self._told(padded(framed, prefix=[np.ones(len(row), dtype=bool) for row in framed]))
        facts = {name: fact.to(device) for name, fact in tokens.facts.items()}
        valid = None if tokens.valid is None else tokens.valid.to(device)
        return replace(tokens, ids=tokens.ids.to(device), valid=valid, facts=facts)

    def inputs(self, batch: Batch) -> tuple[Tokens | None, Tokens | None]:
        """What the encoder and the decoder read of a batch: a side that writes reads all but its last token."""
        assert batch.source is not None
        if self.form == "pairs":
            assert batch.target is not None
            return batch.source, _without_end(batch.target)
        if not self.follows:
            return batch.source, None
        return None, _without_end(batch.source)

    def row(self, ids: Sequence[int], side: str, after: int | None = None) -> TokenRow:
        """Ids as tokens that can be read; after: the token that follows the last, in a side that writes."""
        tokenizer = self.tokenizers.source if side == "source" else self.tokenizers.target
        following = None
        if self.follows and side == "target":
            last = "" if after is None else tokenizer.token(after)
            following = (*(tokenizer.token(number) for number in ids[1:]), last)
        return TokenRow(tuple(ids), tuple(map(tokenizer.token, ids)), tuple(map(is_special, ids)), following)

    def _told(self, tokens: Tokens) -> Tokens:
        new = {name: torch.zeros_like(tokens.ids) for name in self.facts if name not in tokens.facts}
        return replace(tokens, facts={**tokens.facts, **new}) if new else tokens


def as_example(given: Given) -> Example:
    """Whatever names a text, as an example."""
    if isinstance(given, Example):
        return given
    return Example(given) if isinstance(given, str) else Example(*given)


def is_special(number: int) -> bool:
    """Whether an id stands for no text; what a tokenizer does not know is text."""
    return number < len(Special) and number != Special.UNKNOWN


def text_ids(tokenizer: Tokenizer) -> range:
    """The ids that stand for text."""
    return range(len(Special), tokenizer.size)


def _text(ids: Sequence[int]) -> tuple[int, ...]:
    return tuple(number for number in ids if not is_special(number))


def _framed(ids: NDArray[np.int64], before: list[int], after: list[int]) -> NDArray[np.int64]:
    return np.concatenate([np.asarray(before, dtype=np.int64), ids, np.asarray(after, dtype=np.int64)])


def _without_end(tokens: Tokens) -> Tokens:
    """All but the last real token of each row; rows are padded on the right."""
    valid = None if tokens.valid is None else tokens.valid[:, 1:]
    facts = {name: fact[:, :-1] for name, fact in tokens.facts.items()}
    return replace(tokens, ids=tokens.ids[:, :-1], valid=valid, facts=facts)
