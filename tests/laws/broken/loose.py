"""Schedules, optimizers, metrics, constraints, searches, objectives, tokenizers and data that break one law each."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from kit import (
    Batch,
    Constraint,
    Data,
    Decoder,
    Example,
    History,
    Hypothesis,
    Loss,
    Metric,
    Objective,
    Optimizer,
    Options,
    ParameterGroup,
    Request,
    Results,
    Schedule,
    Search,
    SearchOptions,
    Serves,
    Special,
    Split,
    Task,
    Tokenizer,
    Writing,
    torch_groups,
)


class BrokenOptions(Options):
    use: Literal["broken"] = "broken"


class BrokenSchedule(Schedule):
    options_type = BrokenOptions
    breaks: tuple[str, ...] = ()

    def factor(self, step: int, steps: int) -> float:
        return 1 / (1 + step)


class FallsBelowNothing(BrokenSchedule):
    breaks = ("schedule.usable",)

    def factor(self, step: int, steps: int) -> float:
        return 1 - step / steps


class CountsItsCalls(BrokenSchedule):
    breaks = ("schedule.pure",)
    calls = 0

    def factor(self, step: int, steps: int) -> float:
        self.calls += 1
        return 1 / self.calls


class BrokenOptimizer(Optimizer):
    options_type = BrokenOptions
    breaks: tuple[str, ...] = ()

    def build(self, groups: list[ParameterGroup]) -> torch.optim.Optimizer:
        return torch.optim.SGD(torch_groups(groups, 0.0), lr=0.05, momentum=0.9)


class LeavesOutMatrices(BrokenOptimizer):
    breaks = ("optimizer.groups",)

    def build(self, groups: list[ParameterGroup]) -> torch.optim.Optimizer:
        return super().build([group for group in groups if not group.matrix])


class _Climbing(torch.optim.SGD):
    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = -parameter.grad
        return super().step(closure)


class Climbs(BrokenOptimizer):
    breaks = ("optimizer.learns",)

    def build(self, groups: list[ParameterGroup]) -> torch.optim.Optimizer:
        return _Climbing(torch_groups(groups, 0.0), lr=0.05)


class _Secretive(torch.optim.SGD):
    """Slows down by a count that it does not save."""

    count = 0

    def step(self, closure: Any = None) -> Any:
        self.count += 1
        for group in self.param_groups:
            group["lr"] = 0.05 / self.count
        return super().step(closure)


class ForgetsItsCount(BrokenOptimizer):
    breaks = ("optimizer.resumes",)

    def build(self, groups: list[ParameterGroup]) -> torch.optim.Optimizer:
        return _Secretive(torch_groups(groups, 0.0), lr=0.05)


class BrokenMetric(Metric):
    options_type = BrokenOptions
    breaks: tuple[str, ...] = ()
    reads_answers = True

    def measure(self, results: Results) -> float:
        return 1 - results.correct / max(1, results.predicted)


class DividesByAnswers(BrokenMetric):
    breaks = ("metric.figure",)

    def measure(self, results: Results) -> float:
        return super().measure(results) if any(it.text for it in results.answers) else float("nan")


class UpsideDown(BrokenMetric):
    breaks = ("metric.direction",)
    lower_is_better = False


class BrokenConstraint(Constraint):
    options_type = BrokenOptions
    breaks: tuple[str, ...] = ()

    def apply(self, scores_RV: Tensor, history: History) -> Tensor:
        return scores_RV


class CutsChoices(BrokenConstraint):
    breaks = ("constraint.scores",)

    def apply(self, scores_RV: Tensor, history: History) -> Tensor:
        return scores_RV[:, :-1]


class BlocksForAll(BrokenConstraint):
    """What one row wrote is hidden from every row."""

    breaks = ("constraint.row_by_row",)

    def apply(self, scores_RV: Tensor, history: History) -> Tensor:
        scores_RV[:, history.tokens.unique()] = float("-inf")
        return scores_RV


class RemembersWhatItSaw(BrokenConstraint):
    breaks = ("constraint.keeps_nothing",)

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self.seen: set[int] = set()

    def apply(self, scores_RV: Tensor, history: History) -> Tensor:
        self.seen |= set(history.tokens[:1].flatten().tolist())
        scores_RV[:, sorted(self.seen)] = float("-inf")
        return scores_RV


class BrokenSearchOptions(SearchOptions):
    use: Literal["broken"] = "broken"


class BrokenSearch(Search):
    """Greedy, as it should be."""

    options_type = BrokenSearchOptions
    breaks: tuple[str, ...] = ()

    def run(self, decoder: Decoder, request: Request) -> list[list[Hypothesis]]:
        writing = Writing(decoder, request)
        choices = writing.begin()
        ended = torch.zeros(writing.rows, dtype=torch.bool)
        tokens: list[list[int]] = [[] for _ in range(writing.rows)]
        scores = [0.0] * writing.rows
        while True:
            gain_R, token_R = choices.best()
            for row in range(writing.rows):
                if not ended[row]:
                    scores[row] += float(gain_R[row])
                    ended[row] = token_R[row] == request.signs.end
                    tokens[row] += [] if ended[row] else [int(token_R[row])]
            if bool(ended.all()) or writing.length + 1 >= int(writing.limits_R.min()):
                return [[Hypothesis(*found)] for found in zip(tokens, scores, map(bool, ended.tolist()), strict=True)]
            choices = writing.write(token_R)


class WritesTooMuch(BrokenSearch):
    breaks = ("search.answers",)

    def run(self, decoder: Decoder, request: Request) -> list[list[Hypothesis]]:
        found = super().run(decoder, request)
        return [[replace(it, tokens=[*it.tokens, 4, 4])] for (it,) in found]


class WritesPadding(BrokenSearch):
    breaks = ("search.signs",)

    def run(self, decoder: Decoder, request: Request) -> list[list[Hypothesis]]:
        return super().run(decoder, replace(request, signs=replace(request.signs, never=())))


class MixesRows(BrokenSearch):
    """Puts the last row first, and forgets which text it belongs to."""

    breaks = ("search.alone",)

    def run(self, decoder: Decoder, request: Request) -> list[list[Hypothesis]]:
        decoder.select(torch.arange(decoder.rows).flip(0))
        return super().run(decoder, request)


class BrokenObjective(Objective):
    options_type = BrokenOptions
    breaks: tuple[str, ...] = ()
    serves = (Serves("decoder", "text", "windows"),)

    def loss(self, model: Any, batch: Batch) -> Loss:
        assert batch.source is not None
        scores = model(batch.source, packed=True).flatten(0, 1)
        gold = batch.source.ids.flatten()
        total = torch.nn.functional.cross_entropy(scores, gold, reduction="sum")
        return Loss(total, gold.numel(), total.detach())


class TrainsNothing(BrokenObjective):
    breaks = ("objective.trains",)

    def loss(self, model: Any, batch: Batch) -> Loss:
        found = super().loss(model, batch)
        return replace(found, total=found.total.detach() + 0 * next(model.parameters()).sum())


class Averages(BrokenObjective):
    """A mean over this share of the batch: other processes then count differently."""

    breaks = ("objective.shares",)

    def loss(self, model: Any, batch: Batch) -> Loss:
        found = super().loss(model, batch)
        return replace(found, total=found.total / found.count)


class BrokenTokenizer(Tokenizer):
    """A token for each letter."""

    options_type = BrokenOptions
    breaks: tuple[str, ...] = ()

    def train(self, texts: Iterable[str]) -> None:
        self.letters = sorted(set("".join(texts)))

    @property
    def size(self) -> int:
        return len(Special) + len(self.letters)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        ids = {letter: len(Special) + number for number, letter in enumerate(self.letters)}
        return [[ids.get(letter, int(Special.UNKNOWN)) for letter in text] for text in texts]

    def decode(self, ids: Iterable[int]) -> str:
        kept = [number for number in ids if number >= len(Special) or number == Special.UNKNOWN]
        return "".join(self.letters[n - len(Special)] if n >= len(Special) else "�" for n in kept)

    def token(self, number: int) -> str:
        return Special(number).name if number < len(Special) else self.letters[number - len(Special)]

    def save(self, folder: Path) -> None:
        (folder / "tokenizer.json").write_text(json.dumps(self.letters))

    def load(self, folder: Path) -> None:
        self.letters = json.loads((folder / "tokenizer.json").read_text())

    def fingerprint(self) -> str:
        return hashlib.sha256("".join(self.letters).encode()).hexdigest()


class LosesSpaces(BrokenTokenizer):
    breaks = ("tokenizer.there_and_back",)

    def decode(self, ids: Iterable[int]) -> str:
        return super().decode(ids).replace(" ", "")


class ShufflesItsLetters(BrokenTokenizer):
    breaks = ("tokenizer.same_again",)

    def train(self, texts: Iterable[str]) -> None:
        super().train(texts)
        random.SystemRandom().shuffle(self.letters)


class SavesHalf(BrokenTokenizer):
    breaks = ("tokenizer.saving",)

    def save(self, folder: Path) -> None:
        (folder / "tokenizer.json").write_text(json.dumps(self.letters[::2]))


class BrokenData(Data):
    options_type = BrokenOptions
    breaks: tuple[str, ...] = ()

    @property
    def task(self) -> Task:
        return "pairs"

    def splits(self) -> tuple[Split, ...]:
        return ("train",)

    def open(self, split: Split) -> Sequence[Example]:
        return [Example(str(number), str(number)) for number in range(9)]

    def fingerprint(self) -> str:
        return hashlib.sha256(b"broken").hexdigest()


class PairsWithoutTargets(BrokenData):
    breaks = ("data.examples",)

    def open(self, split: Split) -> Sequence[Example]:
        return [Example(str(number)) for number in range(9)]


class DrawsAnew(BrokenData):
    breaks = ("data.by_number",)

    def open(self, split: Split) -> Sequence[Example]:
        draw = random.SystemRandom().random
        return [Example(str(draw()), "x") for _ in range(9)]


class FingerprintsItsName(BrokenData):
    breaks = ("data.fingerprint",)

    def fingerprint(self) -> str:
        return "broken"
