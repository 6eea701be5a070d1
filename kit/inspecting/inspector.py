"""Looks into the model of a run: records what its attention does with texts, one by one or over a whole corpus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from kit.contracts.data import Example, Split
from kit.contracts.objective import Objective
from kit.contracts.tokenizer import Special
from kit.data.batch import Batch
from kit.decoding.building import Writer
from kit.errors import KitError
from kit.inspecting.looking import Looking
from kit.inspecting.reading import FORMS, Given, Ids, Reader
from kit.inspecting.record import AttentionRecord, TokenRow
from kit.model.families import DecoderModel, EncoderDecoder, Model
from kit.recipe.sections import Vocabularies
from kit.runs.directory import RunDirectory
from kit.tokens import Tokens
from kit.training import randomness

if TYPE_CHECKING:  # probes import this file, and to list parts nothing has to be opened
    from kit.opening import OpenedRun

ROWS = 16
"""How many texts go through the model at once."""


@dataclass(frozen=True)
class Inspector:
    """A model, and the way texts get into it."""

    model: Model
    reader: Reader
    objective: Objective | None = None
    """What the run was trained for; None where its recipe does not say."""
    untrained: Callable[[], Model] | None = None
    """Makes the model of the same recipe as it would be before training."""
    opened: OpenedRun | None = None
    """The run, where there is one."""
    writer: Writer | None = None
    """How the model writes where it is given no target."""

    def record(self, given: Given) -> AttentionRecord:
        """What the attention does with one text: `"text"`, `("source", "target")`, or an example.

        A model that writes is given the target; where there is none, what it writes itself.
        """
        return next(self.records([given]))

    def records(self, texts: Iterable[Given], rows: int = ROWS) -> Iterator[AttentionRecord]:
        """The same for many texts, in their order; no more than `rows` of them are held at once."""
        for chunk in _chunks(texts, rows):
            yield from self.look([self.reader.encode(given) for given in chunk])

    def stream(self, rows: Sequence[Ids], size: int = ROWS) -> Iterator[AttentionRecord]:
        """Records of texts that are ids already, a few at a time."""
        for start in range(0, len(rows), size):
            yield from self.look(rows[start : start + size])

    def look(self, rows: Sequence[Ids]) -> list[AttentionRecord]:
        """The same for texts that are ids already."""
        filled, wrote = self.filled(rows)
        batch = self.reader.batch(filled, self.device)
        source, target = self.reader.inputs(batch)
        looking = Looking()
        with torch.inference_mode():
            self.model(source, target, watcher=looking)
        return [self._record(looking, batch, source, target, row, wrote[row]) for row in range(len(rows))]

    def filled(self, rows: Sequence[Ids]) -> tuple[list[Ids], list[bool]]:
        """Texts with their targets, where the model writes any; and which of them it wrote itself."""
        missing = [row for row, ids in enumerate(rows) if self.reader.writes and ids.target is None]
        filled = list(rows)
        if missing:
            for row, target in zip(missing, self.write([rows[row] for row in missing]), strict=True):
                filled[row] = replace(rows[row], target=target)
        return filled, [row in missing for row in range(len(rows))]

    @torch.inference_mode()
    def write(self, rows: Sequence[Ids]) -> list[tuple[int, ...]]:
        """What the model writes for these sources, by the search of its recipe."""
        if self.writer is None:
            raise KitError("there is no search here to write a target with; give the target too")
        source = self.reader.batch(rows, self.device).source
        assert source is not None
        if isinstance(self.model, EncoderDecoder):
            session, limits = self.model.start(source), [self.reader.length - 1] * len(rows)
            first = Tokens(torch.full_like(source.ids[:, :1], int(Special.START)), right_padded=True)
        else:
            assert isinstance(self.model, DecoderModel)
            session, first = self.model.start(), self.reader.prompt(rows, self.device)
            limits = [max(1, self.reader.length - len(row.source) - 2) for row in rows]
        longest = self.writer.search.options.length
        found = self.writer.write(session, [min(limit, longest) for limit in limits], first)
        return [tuple(token for token in each[0].tokens if token != Special.END) for each in found]

    def examples(self, split: Split = "validation", most: int | None = None) -> Iterator[Example]:
        """Examples of the run's own data that fit into the model, from the front."""
        if self.opened is None:
            raise KitError("there is no run here whose data could be read; give texts")
        data = self.opened.choices.data()
        data.prepare()
        found = data.open(split if split in data.splits() else "train")
        fitting = (example for example in found if self.reader.fits(self.reader.ids(example)))
        yield from islice(fitting, most)

    def twin(self, seed: int = 0) -> Inspector:
        """The same recipe before any training: what a measure says of a model that has learnt nothing."""
        if self.untrained is None:
            raise KitError("this model was not made from a recipe, so there is no untrained one like it")
        with randomness.untouched():
            torch.manual_seed(seed)
            model = self.untrained()
        model.eval().requires_grad_(False).to(self.device)
        return replace(self, model=model)

    def even(self) -> Inspector:
        """The same, with records as they were if every head gave all keys that it may see the same."""
        return _Even(**vars(self))

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    def _record(
        self, looking: Looking, batch: Batch, source: Tokens | None, target: Tokens | None, row: int, written: bool
    ) -> AttentionRecord:
        maps = tuple(looking.maps(row))
        whole = batch.target if self.reader.form == "pairs" else batch.source
        sides: list[TokenRow | None] = []
        for name, tokens in (("source", source), ("target", target)):
            if tokens is None:
                sides.append(None)
                continue
            ids = tokens.ids[row] if tokens.valid is None else tokens.ids[row][tokens.valid[row]]
            after = None
            if name == "target" and whole is not None:
                after = int(whole.ids[row, len(ids)])
            sides.append(self.reader.row(ids.tolist(), name, after))
        return AttentionRecord(maps, sides[0], sides[1], dict(looking.unseen), written)


@dataclass(frozen=True)
class _Even(Inspector):
    """Shows records with even weights."""

    def look(self, rows: Sequence[Ids]) -> list[AttentionRecord]:
        return [record.uniform() for record in super().look(rows)]


def inspect(run: str | Path | RunDirectory | OpenedRun) -> Inspector:
    """Look into a run: `kit.inspect("pronounce").record("hello")`."""
    from kit.opening import OpenedRun, open_run

    opened = run if isinstance(run, OpenedRun) else open_run(run)
    recipe, choices = opened.recipe, opened.choices
    objective, form = None, FORMS[recipe.model.family]
    if recipe.data is not None and recipe.training is not None:
        objective, serves = choices.objective(choices.data())
        form = serves.form
    facts = choices.facts_needed() - (frozenset() if objective is None else objective.brings)
    reader = Reader(opened.tokenizers, form, recipe.model.length, opened.labels, facts)
    target = opened.tokenizers.target
    writer = Writer.build(recipe.search, opened.kit.registry, target.encode, target.size) if reader.writes else None
    sizes = Vocabularies(source=opened.tokenizers.source.size, target=opened.tokenizers.target.size)

    def untrained() -> Model:
        return opened.kit.build(recipe, sizes, opened.tokenizers.symbols())

    return Inspector(opened.model, reader, objective, untrained, opened, writer)


def _chunks(texts: Iterable[Given], size: int) -> Iterator[list[Given]]:
    stream = iter(texts)
    while chunk := list(islice(stream, size)):
        yield chunk
