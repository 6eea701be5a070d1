"""Whether the vector of one occurrence of a word tells which of its senses is meant (Ethayarajh 2019; Pilehvar 2019).

The data says where its ambiguous words stand and what each occurrence means. A probe (the nearer of two centroids, from
one half of the occurrences) guesses the sense of the other half. A static vector is the same at every occurrence, so
that it is left with chance, whatever it was trained on.
Shapes: N occurrences, D width.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, Protocol, cast

import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor

from kit import KitError, Measure, Measured, Options, Series, Special, Subject, Tokens
from kit_measure.static import glove, word2vec
from kit_measure.texts import parts_of


class Occurrence(Protocol):
    """A word in a text, as data that knows its senses gives it."""

    text: str
    place: int
    """Which word of the text it is, counted from 0."""
    word: str
    sense: str


class SensesOptions(Options):
    """Options of `senses`. The data must know its ambiguous words, as `homonyms` does."""

    use: Literal["senses"] = "senses"
    vectors: Literal["model", "word2vec", "glove"] = "model"
    """Whose vectors: the model's, in context; or static ones that are trained here, on the training split."""
    occurrences: PositiveInt = 600
    """How many occurrences are looked at."""
    sentences: PositiveInt = 5000
    """How many texts static vectors are trained on."""
    word: str = "bank"
    """The word whose own figures are given beside the mean over all."""


class SensesMeasure(Measure):
    """How well senses are told apart, over layers; and how much a word's vector changes with its context."""

    options_type = SensesOptions
    options: SensesOptions

    @torch.no_grad()
    def measure(self, subject: Subject) -> Measured:
        """Probe every ambiguous word in every layer."""
        ask = getattr(subject.data, "occurrences", None)
        if ask is None:
            raise KitError(f"the data {subject.data.part_name()} does not know its ambiguous words; take homonyms")
        found = cast("list[Occurrence]", ask("test", self.options.occurrences))
        own: dict[str, float] = {}
        if self.options.vectors == "model":
            layers = self._contextual(subject, found)
        else:
            vectors = self._static(subject)
            layers = [torch.stack([vectors[it.word] for it in found])]
            # The model is not looked at, so the cell's parameters are those of the vectors.
            own["parameters"] = float(sum(vector.numel() for vector in vectors.values()))
        accuracy = [_probed(layer_ND, found, subject.seed) for layer_ND in layers]
        means = [sum(layer.values()) / len(layer) for layer in accuracy]
        last_ND = layers[-1]
        figures = {"accuracy": means[-1], "best_layer": max(means), "self_similarity": _alike(last_ND, found)}
        figures["anisotropy"] = _anisotropy(last_ND, subject.seed)
        if self.options.word in accuracy[-1]:
            figures[self.options.word] = accuracy[-1][self.options.word]
        numbers = [float(number) for number in range(len(means))]
        return Measured(figures | own, [Series("senses", numbers, means, "layer", "accuracy of the probe")])

    def _static(self, subject: Subject) -> dict[str, Tensor]:
        examples = subject.data.open("train")
        texts = [examples[index].source.split() for index in range(min(len(examples), self.options.sentences))]
        train = word2vec if self.options.vectors == "word2vec" else glove
        return train(texts, subject.recipe.model.width, subject.seed)

    def _contextual(self, subject: Subject, found: list[Occurrence]) -> list[Tensor]:
        """[N, D] of each layer: of what goes in, of each layer of the stack, and of what comes out."""
        embedding, stack = parts_of(subject)
        kept: dict[int, Tensor] = {}
        inner = list(getattr(stack, "layers", ()))
        hooks = [embedding.register_forward_hook(_keep(kept, 0))]
        hooks += [module.register_forward_hook(_keep(kept, 1 + number)) for number, module in enumerate(inner[:-1])]
        hooks.append(stack.register_forward_hook(_keep(kept, max(1, len(inner)))))
        ids = subject.tokenizer.encode_batch([it.text for it in found])
        rows = [[int(Special.START), *row, int(Special.END)] for row in ids]
        padded = Tokens.from_lists(rows)
        facts = {"document": torch.zeros_like(padded.ids)}  # for masks that keep documents apart: here each row is one
        try:
            subject.model(replace(padded, facts=facts))
        finally:
            for hook in hooks:
                hook.remove()
        places = torch.tensor([it.place + 1 for it in found])
        return [kept[number][torch.arange(len(found)), places] for number in sorted(kept)]


def _keep(kept: dict[int, Tensor], number: int) -> Any:
    def hook(module: Any, given: Any, made: Tensor) -> None:
        kept[number] = made

    return hook


def _probed(vectors_ND: Tensor, found: list[Occurrence], seed: int) -> dict[str, float]:
    """The share of right guesses for each word; where both centroids are as near, the guess is a coin's."""
    generator = torch.Generator().manual_seed(seed)
    shares = {}
    for word in sorted({it.word for it in found}):
        mine = [number for number, it in enumerate(found) if it.word == word]
        senses = sorted({found[number].sense for number in mine})
        fitted, asked = mine[: len(mine) // 2], mine[len(mine) // 2 :]
        groups = [[number for number in fitted if found[number].sense == sense] for sense in senses]
        if len(senses) < 2 or not asked or not all(groups):
            continue
        centroids = torch.stack([vectors_ND[group].double().mean(0) for group in groups])
        distance = torch.cdist(vectors_ND[asked].double(), centroids)
        close = distance <= distance.amin(1, keepdim=True) + 1e-9 * distance.amax().clamp(min=1.0)
        guess = (close * torch.rand(close.shape, generator=generator)).argmax(1)
        right = [senses[int(choice)] == found[number].sense for choice, number in zip(guess, asked, strict=True)]
        shares[word] = sum(right) / len(right)
    if not shares:
        raise KitError("too few occurrences to tell senses apart; ask for more (measures: occurrences)")
    return shares


def _alike(vectors_ND: Tensor, found: list[Occurrence]) -> float:
    """Mean cosine between occurrences of the same word: 1 for static vectors."""
    shares = []
    for word in sorted({it.word for it in found}):
        mine = [number for number, it in enumerate(found) if it.word == word]
        unit = F.normalize(vectors_ND[mine].double(), dim=-1)
        count = len(mine)
        if count > 1:
            shares.append(float(((unit @ unit.T).sum() - count) / (count * (count - 1))))
    return sum(shares) / len(shares)


def _anisotropy(vectors_ND: Tensor, seed: int) -> float:
    """Mean cosine between occurrences whatever the word: what self-similarity is to be compared with."""
    unit = F.normalize(vectors_ND.double(), dim=-1)
    order = torch.randperm(len(unit), generator=torch.Generator().manual_seed(seed))
    return float((unit * unit[order]).sum(-1).mean())
