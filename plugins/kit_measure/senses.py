"""Word sense disambiguation from contextual vectors, layer by layer (Ethayarajh 2019; Pilehvar 2019).

The data gives the position and the sense of its ambiguous words. A nearest-centroid probe, fitted on one half of the
occurrences, classifies the sense of the other half. A static vector is the same at every occurrence, so that its
accuracy is chance.
Shapes: N occurrences, D width.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, Protocol, cast

import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor

from kit import KitError, Measure, Measured, Options, Series, Special, Subject, TokenBatch
from kit_measure.random_tokens import parts_of
from kit_measure.static_vectors import glove, word2vec


class Occurrence(Protocol):
    """An ambiguous word in a sequence, as the data gives it."""

    text: str
    word_index: int
    """The index of the word in the sequence, from 0."""
    word: str
    sense: str


class SensesOptions(Options):
    """Options of `senses`. The data must label its ambiguous words, as `homonyms` does."""

    use: Literal["senses"] = "senses"
    vectors: Literal["model", "word2vec", "glove"] = "model"
    """The contextual vectors of the model, or static ones that are trained on the training split."""
    occurrences: PositiveInt = 600
    """The number of occurrences."""
    sentences: PositiveInt = 5000
    """The number of sequences that static vectors are trained on."""
    word: str = "bank"
    """A word whose own accuracy is reported beside the mean."""


class SensesMeasure(Measure):
    """Probe accuracy by layer, self-similarity and anisotropy."""

    options_type = SensesOptions
    options: SensesOptions

    @torch.no_grad()
    def measure(self, subject: Subject) -> Measured:
        """Probe every ambiguous word in every layer."""
        ask = getattr(subject.data, "occurrences", None)
        if ask is None:
            raise KitError(f"the data {subject.data.name()} does not know its ambiguous words; take homonyms")
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
        figures = {"accuracy": means[-1], "best_layer": max(means), "self_similarity": _self_similarity(last_ND, found)}
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
        """[N, D] of each layer: the embedding, the layers of the stack, and its output."""
        embedding, stack = parts_of(subject)
        kept: dict[int, Tensor] = {}
        inner = list(getattr(stack, "layers", ()))
        hooks = [embedding.register_forward_hook(_keep(kept, 0))]
        hooks += [module.register_forward_hook(_keep(kept, 1 + number)) for number, module in enumerate(inner[:-1])]
        hooks.append(stack.register_forward_hook(_keep(kept, max(1, len(inner)))))
        ids = subject.tokenizer.encode_batch([it.text for it in found])
        rows = [[int(Special.START), *row, int(Special.END)] for row in ids]
        padded = TokenBatch.from_lists(rows)
        features = {"document": torch.zeros_like(padded.ids)}  # for document masks: each row is one document
        try:
            subject.model(replace(padded, features=features))
        finally:
            for hook in hooks:
                hook.remove()
        positions = torch.tensor([it.word_index + 1 for it in found])
        return [kept[number][torch.arange(len(found)), positions] for number in sorted(kept)]


def _keep(kept: dict[int, Tensor], number: int) -> Any:
    def hook(module: Any, given: Any, made: Tensor) -> None:
        kept[number] = made

    return hook


def _probed(vectors_ND: Tensor, found: list[Occurrence], seed: int) -> dict[str, float]:
    """The accuracy of the nearest-centroid probe for each word; ties are broken at random."""
    generator = torch.Generator().manual_seed(seed)
    shares = {}
    for word in sorted({it.word for it in found}):
        mine = [number for number, it in enumerate(found) if it.word == word]
        senses = sorted({found[number].sense for number in mine})
        fitted, held_out = mine[: len(mine) // 2], mine[len(mine) // 2 :]
        groups = [[number for number in fitted if found[number].sense == sense] for sense in senses]
        if len(senses) < 2 or not held_out or not all(groups):
            continue
        centroids = torch.stack([vectors_ND[group].double().mean(0) for group in groups])
        distance = torch.cdist(vectors_ND[held_out].double(), centroids)
        close = distance <= distance.amin(1, keepdim=True) + 1e-9 * distance.amax().clamp(min=1.0)
        guess = (close * torch.rand(close.shape, generator=generator)).argmax(1)
        right = [senses[int(choice)] == found[number].sense for choice, number in zip(guess, held_out, strict=True)]
        shares[word] = sum(right) / len(right)
    if not shares:
        raise KitError("too few occurrences to tell senses apart; ask for more (measures: occurrences)")
    return shares


def _self_similarity(vectors_ND: Tensor, found: list[Occurrence]) -> float:
    """Self-similarity: the mean cosine between occurrences of a word; 1 for static vectors."""
    shares = []
    for word in sorted({it.word for it in found}):
        mine = [number for number, it in enumerate(found) if it.word == word]
        unit = F.normalize(vectors_ND[mine].double(), dim=-1)
        count = len(mine)
        if count > 1:
            shares.append(float(((unit @ unit.T).sum() - count) / (count * (count - 1))))
    return sum(shares) / len(shares)


def _anisotropy(vectors_ND: Tensor, seed: int) -> float:
    """The mean cosine between random occurrences: the baseline of self-similarity."""
    unit = F.normalize(vectors_ND.double(), dim=-1)
    order = torch.randperm(len(unit), generator=torch.Generator().manual_seed(seed))
    return float((unit * unit[order]).sum(-1).mean())
