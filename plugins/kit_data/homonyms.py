"""Sentences with words of two senses whose true sense is known: pseudo-homonyms (Gale et al. 1992; Schütze 1998).

Each sentence is about one topic. Two words of different topics are replaced by one, everywhere: the hidden original is
the sense, exact and free. `bank` is one of them, made of the river's and of the money's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import Field

from kit import Example, Split, Task
from kit_data.generated import GeneratedData, GeneratedOptions

TOPICS: dict[str, dict[str, list[str]]] = {
    "river": {
        "thing": ["riverside", "boat", "reed", "fish", "bridge", "otter", "current", "willow"],
        "deed": ["drifts", "floods", "flows", "sinks"],
        "kind": ["muddy", "deep", "green", "wet"],
    },
    "money": {
        "thing": ["lender", "loan", "cheque", "teller", "credit", "account", "branch", "vault"],
        "deed": ["pays", "lends", "owes", "saves"],
        "kind": ["rich", "legal", "monthly", "secure"],
    },
    "kitchen": {
        "thing": ["banana", "oven", "spoon", "soup", "cook", "bread", "butter", "plate"],
        "deed": ["boils", "bakes", "melts", "smells"],
        "kind": ["sweet", "hot", "fresh", "salty"],
    },
    "house": {
        "thing": ["door", "window", "roof", "stair", "wall", "lamp", "carpet", "chimney"],
        "deed": ["creaks", "opens", "leaks", "shuts"],
        "kind": ["wooden", "narrow", "old", "painted"],
    },
    "music": {
        "thing": ["violin", "choir", "drum", "singer", "chord", "tune", "flute", "concert"],
        "deed": ["sounds", "echoes", "plays", "rings"],
        "kind": ["loud", "gentle", "slow", "famous"],
    },
    "school": {
        "thing": ["pupil", "teacher", "lesson", "pencil", "exam", "desk", "book", "answer"],
        "deed": ["learns", "reads", "counts", "writes"],
        "kind": ["clever", "young", "short", "hard"],
    },
}
MERGED = {
    "bank": ("riverside", "lender"),
    "bandoor": ("banana", "door"),
    "viopil": ("violin", "pupil"),
    "fishcheque": ("fish", "cheque"),
    "ovenroof": ("oven", "roof"),
    "drumexam": ("drum", "exam"),
}
PATTERNS = (
    "the {kind} {thing} {deed} near the {thing}",
    "a {thing} {deed} and the {kind} {thing} {deed}",
    "every {thing} with a {thing} {deed}",
    "the {thing} of the {kind} {thing} {deed} again",
)
_SINGLE = {original: word for word, originals in MERGED.items() for original in originals}


@dataclass(frozen=True)
class Occurrence:
    """One ambiguous word in a sentence."""

    text: str
    place: int
    word: str
    sense: str
    """The word that it stands for."""


class HomonymsOptions(GeneratedOptions):
    """Options of `homonyms`."""

    use: Literal["homonyms"] = "homonyms"
    sentences: int = Field(default=1, ge=1, le=20)
    """How many sentences, all about one topic, make a text."""


class HomonymsData(GeneratedData):
    """Texts to continue or fill in, in which six words have two senses each."""

    options_type = HomonymsOptions
    options: HomonymsOptions

    @property
    def task(self) -> Task:
        """Text."""
        return "text"

    def draw(self, generator: np.random.Generator, split: Split) -> Example:
        """Sentences about one topic, words merged."""
        return Example(" ".join(_SINGLE.get(word, word) for word in self._words(generator)))

    def occurrences(self, split: Split, count: int) -> list[Occurrence]:
        """So many ambiguous words in sentences of their own, as often in one sense as in the other."""
        found: list[Occurrence] = []
        generator = np.random.default_rng([self.options.seed, len(split), count])
        wanted = [(word, sense) for word, senses in MERGED.items() for sense in senses]
        while len(found) < count:
            word, sense = wanted[len(found) % len(wanted)]
            words = self._words(generator, about=sense)
            text = " ".join(_SINGLE.get(each, each) for each in words)
            found.append(Occurrence(text, words.index(sense), word, sense))
        return found

    def _words(self, generator: np.random.Generator, about: str | None = None) -> list[str]:
        """A text in words that are not merged yet; about: a word that is to be in it."""
        names = list(TOPICS)
        topic = next((name for name in names if about in TOPICS[name]["thing"]), None)
        words = TOPICS[topic or names[int(generator.integers(len(names)))]]
        text: list[str] = []
        for _ in range(self.options.sentences):
            for slot in PATTERNS[int(generator.integers(len(PATTERNS)))].split():
                kind = slot.strip("{}")
                text.append(words[kind][int(generator.integers(len(words[kind])))] if slot != kind else slot)
        if about is not None and about not in text:
            places = [place for place, word in enumerate(text) if word in words["thing"]]
            text[places[int(generator.integers(len(places)))]] = about
        return text
