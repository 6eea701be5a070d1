"""Sentences with pseudowords: ambiguous words whose sense is known (Gale et al. 1992; Schütze 1998).

Each sentence has one topic. Two words of different topics are replaced by one pseudoword everywhere; the original word
is its sense. The pseudoword `bank` replaces `riverside` and `lender`.
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
        "noun": ["riverside", "boat", "reed", "fish", "bridge", "otter", "current", "willow"],
        "verb": ["drifts", "floods", "flows", "sinks"],
        "adjective": ["muddy", "deep", "green", "wet"],
    },
    "money": {
        "noun": ["lender", "loan", "cheque", "teller", "credit", "account", "branch", "vault"],
        "verb": ["pays", "lends", "owes", "saves"],
        "adjective": ["rich", "legal", "monthly", "secure"],
    },
    "kitchen": {
        "noun": ["banana", "oven", "spoon", "soup", "cook", "bread", "butter", "plate"],
        "verb": ["boils", "bakes", "melts", "smells"],
        "adjective": ["sweet", "hot", "fresh", "salty"],
    },
    "house": {
        "noun": ["door", "window", "roof", "stair", "wall", "lamp", "carpet", "chimney"],
        "verb": ["creaks", "opens", "leaks", "shuts"],
        "adjective": ["wooden", "narrow", "old", "painted"],
    },
    "music": {
        "noun": ["violin", "choir", "drum", "singer", "chord", "tune", "flute", "concert"],
        "verb": ["sounds", "echoes", "plays", "rings"],
        "adjective": ["loud", "gentle", "slow", "famous"],
    },
    "school": {
        "noun": ["pupil", "teacher", "lesson", "pencil", "exam", "desk", "book", "answer"],
        "verb": ["learns", "reads", "counts", "writes"],
        "adjective": ["clever", "young", "short", "hard"],
    },
}
PSEUDOWORDS = {
    "bank": ("riverside", "lender"),
    "bandoor": ("banana", "door"),
    "viopil": ("violin", "pupil"),
    "fishcheque": ("fish", "cheque"),
    "ovenroof": ("oven", "roof"),
    "drumexam": ("drum", "exam"),
}
PATTERNS = (
    "the {adjective} {noun} {verb} near the {noun}",
    "a {noun} {verb} and the {adjective} {noun} {verb}",
    "every {noun} with a {noun} {verb}",
    "the {noun} of the {adjective} {noun} {verb} again",
)
_PSEUDOWORD_OF = {original: word for word, originals in PSEUDOWORDS.items() for original in originals}


@dataclass(frozen=True)
class Occurrence:
    """An occurrence of a pseudoword in a text."""

    text: str
    word_index: int
    word: str
    sense: str
    """The original word."""


class HomonymsOptions(GeneratedOptions):
    """Options of `homonyms`."""

    use: Literal["homonyms"] = "homonyms"
    sentences: int = Field(default=1, ge=1, le=20)
    """The number of sentences of a text, all of one topic."""


class HomonymsData(GeneratedData):
    """Texts in which six pseudowords have two senses each."""

    options_type = HomonymsOptions
    options: HomonymsOptions

    @property
    def task(self) -> Task:
        """The task: language modeling."""
        return "text"

    def draw(self, generator: np.random.Generator, split: Split) -> Example:
        """Draws sentences of one topic, with pseudowords."""
        return Example(" ".join(_PSEUDOWORD_OF.get(word, word) for word in self._words(generator)))

    def occurrences(self, split: Split, count: int) -> list[Occurrence]:
        """Returns `count` occurrences of pseudowords, balanced over senses, each in a text of its own."""
        found: list[Occurrence] = []
        generator = np.random.default_rng([self.options.seed, len(split), count])
        senses = [(word, sense) for word, originals in PSEUDOWORDS.items() for sense in originals]
        while len(found) < count:
            word, sense = senses[len(found) % len(senses)]
            words = self._words(generator, required=sense)
            text = " ".join(_PSEUDOWORD_OF.get(each, each) for each in words)
            found.append(Occurrence(text, words.index(sense), word, sense))
        return found

    def _words(self, generator: np.random.Generator, required: str | None = None) -> list[str]:
        """The words of a text before replacement; required: a noun that must occur in it."""
        topics = list(TOPICS)
        topic = next((name for name in topics if required in TOPICS[name]["noun"]), None)
        words = TOPICS[topic or topics[int(generator.integers(len(topics)))]]
        text: list[str] = []
        for _ in range(self.options.sentences):
            for slot in PATTERNS[int(generator.integers(len(PATTERNS)))].split():
                tag = slot.strip("{}")
                text.append(words[tag][int(generator.integers(len(words[tag])))] if slot != tag else slot)
        if required is not None and required not in text:
            nouns = [index for index, word in enumerate(text) if word in words["noun"]]
            text[nouns[int(generator.integers(len(nouns)))]] = required
        return text
