"""Answers texts with the model of a run: any model, texts of any length, in any number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias

import torch

from kit.component import Options
from kit.contracts.objective import Form, Objective
from kit.decoding.arranging import arrange
from kit.decoding.building import Writer
from kit.decoding.compiling import compile_steps
from kit.decoding.quantizing import quantize
from kit.errors import KitError
from kit.opening import OpenedRun, open_run
from kit.predicting.answering import Answering, Fills, Names, Writes
from kit.predicting.prediction import Prediction
from kit.predicting.reading import Reader, Reading
from kit.predicting.searching import chosen_search
from kit.predicting.windows import in_windows
from kit.runs.directory import RunDirectory

if TYPE_CHECKING:
    from pathlib import Path

    from kit.kit import Kit
    from kit.model.families import Model

Use = Literal["translate", "continue", "fill", "classify"]
"""translate: an answer to a text, in words; continue: how it goes on; fill: what was left out; classify: its class."""
USES: Mapping[Form, Use] = {
    "pairs": "translate",
    "prefixed": "translate",
    "texts": "continue",
    "windows": "continue",
    "blocks": "fill",
}
"""What a model that predicts tokens does with a text, by the rows that it was trained on."""
ROWS = 32
"""The most texts in a batch; more make a step no cheaper a text on a CPU."""
TOKENS = 8192
"""The most tokens read in a batch, padding counted."""
Compiling: TypeAlias = bool | Literal["batches"]
"""Whether steps are compiled: none, those of single texts, or those of large batches too."""


def load(
    run: str | Path | RunDirectory,
    kit: Kit | None = None,
    *,
    device: str | None = None,
    int8: bool = False,
    compiled: Compiling = False,
) -> Predictor:
    """The model of a run, ready to answer: `kit.load("pronounce").predict(["hello"])`.

    run: its folder, its name and number, or its name (the newest); device: left out, a GPU where there is one.
    int8: with weights in eight bits, on a CPU: a quarter of the memory, and numbers that differ a little.
    compiled: with steps that are compiled: single texts are answered faster, the first of them after some seconds;
    "batches": those of large batches too, which gains less.
    """
    if int8 and compiled:
        raise KitError("weights in eight bits are not compiled; take int8 or compiled, not both")
    opened = open_run(run, kit, device="cpu" if int8 and device is None else device)
    if int8:
        quantize(opened.model)
    elif opened.device.type == "cpu":
        arrange(opened.model)
    if compiled:
        compile_steps(opened.model, batches=compiled == "batches")
    return Predictor(opened)


class Predictor:
    """Answers texts; the same text gets the same answer whatever is answered with it."""

    def __init__(self, run: OpenedRun) -> None:
        self.run = run
        objective, serves = run.choices.objective(run.choices.data())
        self.objective: Objective = objective
        self.form: Form = serves.form
        wanted = run.choices.facts_needed() - objective.brings
        self.reader = Reader(run.tokenizers.source, serves.form, run.recipe.model.length, wanted)
        self._answering = lru_cache(maxsize=16)(self._new_answering)

    @property
    def task(self) -> Use:
        """What the model does with a text, by what it was trained on."""
        return USES[self.form] if self.objective.per_token else "classify"

    @cached_property
    def longest(self) -> int:
        """The most tokens of a text that are read; what is longer is cut."""
        return self.reader.longest

    def predict(
        self, inputs: Sequence[str], *, search: str | Options | None = None, nbest: int = 1
    ) -> list[Prediction]:
        """The answers to texts, in their order.

        search: how a model that writes does so, such as `beam size=5` or `size=5`; left out, as the recipe says.
        nbest: how many answers to give for each text; there may be fewer.
        """
        if isinstance(inputs, str):
            raise KitError("one text was given where a list of texts is wanted; write predict([text])")
        return list(self.answers([inputs] if inputs else [], search=search, nbest=nbest))

    def stream(
        self, lines: Iterable[str], *, search: str | Options | None = None, nbest: int = 1
    ) -> Iterator[Prediction]:
        """The same for a stream of texts of any length, of which only a window is held in memory."""
        return self.answers(in_windows(lines), search=search, nbest=nbest)

    def answers(
        self, windows: Iterable[Sequence[str]], *, search: str | Options | None = None, nbest: int = 1
    ) -> Iterator[Prediction]:
        """The same for texts that come some at a time; each window is answered before the next is asked for."""
        if nbest < 1:
            raise KitError(f"{nbest} answers were asked for; wanted at least 1")
        answering = (
            self._new_answering(search, nbest) if isinstance(search, Options) else self._answering(search, nbest)
        )
        first = 0
        for window in windows:
            yield from self._answered(answering, window, first)
            first += len(window)

    def _answered(self, answering: Answering, inputs: Sequence[str], first: int) -> list[Prediction]:
        """first: the number of the first text, which its random choices depend on."""
        readings = [self.reader.read(text) for text in inputs]
        found: dict[int, Prediction] = {}
        for places in _batches(readings):
            chosen = [readings[place] for place in places]
            batch = self.reader.batch(chosen, [first + place for place in places]).to(self.run.device)
            with torch.inference_mode():
                outputs = answering.answer(batch, chosen)
            for place, reading, answers in zip(places, chosen, outputs, strict=True):
                found[place] = Prediction(reading.text, answers, reading.problem)
        return [found[place] for place in range(len(inputs))]

    def _new_answering(self, search: str | Options | None, nbest: int) -> Answering:
        run = self.run
        if self.task in ("classify", "fill"):
            if search is not None:
                raise KitError(f"the model of {run.run.label} writes no text, so there is nothing to search for")
            if self.task == "classify":
                return Names(run.model, run.labels, nbest)
            return Fills(run.model, run.tokenizers.target, nbest)
        options, target = chosen_search(run.recipe, run.kit.registry, search, nbest), run.tokenizers.target
        writer = Writer.build(options, run.kit.registry, target.encode, target.size)
        draft = self._draft(getattr(options, "draft", "")) if writer.search.needs_draft else None
        return Writes(run.model, self.objective, target, writer, run.recipe.model.length, nbest, draft)

    def _draft(self, name: str) -> Model:
        """A smaller model that guesses; it must read and write the same tokens, and texts as long."""
        opened, own = open_run(name, self.run.kit, device=str(self.run.device)), self.run
        refused = f"the run {opened.run.label} cannot guess for {own.run.label}: "
        if opened.tokenizers.fingerprint() != own.tokenizers.fingerprint():
            raise KitError(refused + "they have different tokenizers")
        if opened.recipe.model.family != own.recipe.model.family:
            raise KitError(
                f"{refused}the one is of the family {opened.recipe.model.family}, the other {own.recipe.model.family}"
            )
        length, wanted = opened.recipe.model.length, own.recipe.model.length
        if length < wanted:
            raise KitError(
                f"{refused}it is made for {length} tokens, the other for {wanted}\n"
                f"    train a draft with model.length={wanted}"
            )
        if opened.device.type == "cpu":
            arrange(opened.model)
        return opened.model


def _batches(readings: Sequence[Reading]) -> Iterator[list[int]]:
    """The places of texts of like lengths, so many at a time; the first of a batch is its longest."""
    batch: list[int] = []
    for place in sorted(range(len(readings)), key=lambda place: -len(readings[place].ids)):
        longest = len(readings[batch[0]].ids) if batch else 0
        if batch and (len(batch) == ROWS or longest * (len(batch) + 1) > TOKENS):
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch
