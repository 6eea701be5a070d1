"""Tokenization of single examples into the batches that an objective trains on, with their special tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from kit.contracts.data import Example
from kit.contracts.objective import RowFormat
from kit.contracts.tokenizer import Special, Tokenizer
from kit.data.rows import pad_rows
from kit.data.tokenizers import Tokenizers
from kit.errors import KitError
from kit.inspection.attention_record import AttentionRecord, TokenRow
from kit.sequence.batch import Batch
from kit.sequence.batch_layout import TokenBatch

ExampleLike: TypeAlias = "str | tuple[str, str] | Example"
"""An input; an input with its target; or an example of the data."""

FORMAT_OF_FAMILY: dict[str, RowFormat] = {
    "encoder-decoder": "seq2seq",
    "encoder": "classification",
    "decoder": "lm_window",
}
"""The row format by model family, for a run without an objective."""


@dataclass(frozen=True)
class ExampleIds:
    """One example as token ids, without start, separator and end tokens."""

    source: tuple[int, ...]
    target: tuple[int, ...] | None = None
    label: int | None = None


@dataclass(frozen=True)
class ExampleReader:
    """Tokenizes examples and makes batches of them in the row format of the training."""

    tokenizers: Tokenizers
    row_format: RowFormat
    length: int
    """The maximum sequence length of the model."""
    labels: tuple[str, ...] = ()
    """The class labels, by class index."""
    features: frozenset[str] = frozenset()
    """The token features that the masks of the model need; all 0 for a single sequence."""

    @property
    def generates(self) -> bool:
        """Whether an example has a target, which the model generates where none is given."""
        return self.row_format in ("seq2seq", "prefix_lm")

    @property
    def predicts_next_token(self) -> bool:
        """Whether the model is trained on next-token prediction."""
        return self.row_format not in ("classification", "mlm_block")

    def tokenize(self, example: ExampleLike) -> ExampleIds:
        """The ids of an example of any length."""
        example = as_example(example)
        target = None
        if self.generates and example.target is not None:
            target = tuple(self.tokenizers.target.encode(example.target))
        label = self.labels.index(example.label) if example.label in self.labels else None
        return ExampleIds(tuple(self.tokenizers.source.encode(example.source)), target, label)

    def encode(self, example: ExampleLike) -> ExampleIds:
        """The ids of an example; raises where it is longer than the model's maximum sequence length."""
        ids, source = self.tokenize(example), as_example(example).source
        if not self.fits(ids):
            short = source if len(source) < 60 else source[:57] + "…"
            raise KitError(f"{short!r} is longer than the {self.length} tokens that the model is made for")
        return ids

    def ids_of(self, record: AttentionRecord) -> ExampleIds:
        """The example that a record was made from."""
        ids = [number for row in (record.source, record.target) if row is not None for number in row.ids]
        if self.row_format == "seq2seq":
            assert record.source is not None and record.target is not None
            return ExampleIds(_without_special(record.source.ids), _without_special(record.target.ids))
        if self.row_format == "prefix_lm":
            middle = ids.index(Special.SEPARATOR)
            return ExampleIds(_without_special(ids[:middle]), _without_special(ids[middle:]))
        return ExampleIds(_without_special(ids))

    def fits(self, ids: ExampleIds) -> bool:
        """Whether an example is within the model's maximum sequence length."""
        sides = [len(ids.source) + 1, len(ids.target or ()) + 1]
        longest = max(sides) if self.row_format == "seq2seq" else sum(sides)
        return longest <= self.length

    def batch(self, rows: Sequence[ExampleIds], device: torch.device | None = None) -> Batch:
        """Examples as the batch that the objective expects; a missing target counts as empty."""
        sources = [np.asarray(row.source, dtype=np.int64) for row in rows]
        targets = [np.asarray(row.target or (), dtype=np.int64) for row in rows]
        target: TokenBatch | None = None
        if self.row_format == "seq2seq":
            source = pad_rows([_framed(ids, [], [Special.END]) for ids in sources])
            target = pad_rows([_framed(ids, [Special.START], [Special.END]) for ids in targets])
        elif self.row_format == "prefix_lm":
            heads = [_framed(ids, [Special.START], [Special.SEPARATOR]) for ids in sources]
            whole = [_framed(np.concatenate(pair), [], [Special.END]) for pair in zip(heads, targets, strict=True)]
            flags = [np.arange(len(row)) < len(head) for row, head in zip(whole, heads, strict=True)]
            source = pad_rows(whole, prefix=flags)
        else:
            source = pad_rows([_framed(ids, [Special.START], [Special.END]) for ids in sources])
        source, target = self._with_features(source), None if target is None else self._with_features(target)
        labels = None if any(row.label is None for row in rows) else torch.tensor([row.label for row in rows])
        count = len(rows)
        batch = Batch(source, target, labels, 0, tuple(range(count)), 1, count, 0)
        return batch if device is None else batch.to(device)

    def prompt(self, rows: Sequence[ExampleIds], device: torch.device) -> TokenBatch:
        """The prompt of a decoder-only model that generates the target of a pair."""
        framed = [_framed(np.asarray(row.source, dtype=np.int64), [Special.START], [Special.SEPARATOR]) for row in rows]
        tokens = self._with_features(pad_rows(framed, prefix=[np.ones(len(row), dtype=bool) for row in framed]))
        features = {name: feature.to(device) for name, feature in tokens.features.items()}
        padding_mask = None if tokens.padding_mask is None else tokens.padding_mask.to(device)
        return replace(tokens, ids=tokens.ids.to(device), padding_mask=padding_mask, features=features)

    def model_inputs(self, batch: Batch) -> tuple[TokenBatch | None, TokenBatch | None]:
        """The inputs of the encoder and of the decoder; a next-token predictor receives all but the last token."""
        assert batch.source is not None
        if self.row_format == "seq2seq":
            assert batch.target is not None
            return batch.source, _without_end(batch.target)
        if not self.predicts_next_token:
            return batch.source, None
        return None, _without_end(batch.source)

    def token_row(self, ids: Sequence[int], side: str, after: int | None = None) -> TokenRow:
        """Ids with the texts of their tokens; after: the id after the last one, for next-token prediction."""
        tokenizer = self.tokenizers.source if side == "source" else self.tokenizers.target
        next_tokens = None
        if self.predicts_next_token and side == "target":
            last = "" if after is None else tokenizer.token(after)
            next_tokens = (*(tokenizer.token(number) for number in ids[1:]), last)
        return TokenRow(tuple(ids), tuple(map(tokenizer.token, ids)), tuple(map(is_special_token, ids)), next_tokens)

    def _with_features(self, tokens: TokenBatch) -> TokenBatch:
        new = {name: torch.zeros_like(tokens.ids) for name in self.features if name not in tokens.features}
        return replace(tokens, features={**tokens.features, **new}) if new else tokens


def as_example(example: ExampleLike) -> Example:
    """An example from its input, or from its input and target."""
    if isinstance(example, Example):
        return example
    return Example(example) if isinstance(example, str) else Example(*example)


def is_special_token(number: int) -> bool:
    """Whether an id is a special token; the unknown token is not one here, since it stands for a word."""
    return number < len(Special) and number != Special.UNKNOWN


def ordinary_token_ids(tokenizer: Tokenizer) -> range:
    """The ids of the vocabulary that are not special tokens."""
    return range(len(Special), tokenizer.size)


def _without_special(ids: Sequence[int]) -> tuple[int, ...]:
    return tuple(number for number in ids if not is_special_token(number))


def _framed(ids: NDArray[np.int64], before: list[int], after: list[int]) -> NDArray[np.int64]:
    return np.concatenate([np.asarray(before, dtype=np.int64), ids, np.asarray(after, dtype=np.int64)])


def _without_end(tokens: TokenBatch) -> TokenBatch:
    """Each row without its last token; rows are right-padded."""
    padding_mask = None if tokens.padding_mask is None else tokens.padding_mask[:, 1:]
    features = {name: feature[:, :-1] for name, feature in tokens.features.items()}
    return replace(tokens, ids=tokens.ids[:, :-1], padding_mask=padding_mask, features=features)
