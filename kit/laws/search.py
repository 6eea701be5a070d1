"""Laws of searches, on a decoder whose probabilities are a function of what was read."""

from __future__ import annotations

import torch
from torch import Tensor

from kit.contracts.search import Hypothesis, Request, Search, Signs
from kit.laws.law import broken, law
from kit.laws.subject import Subject
from kit.tokens import Tokens, last_of

CHOICES = 7
SIGNS = Signs(start=1, end=2, never=(0, 1, 3))
LENGTH = 4


class Reader:
    """Scores depend on the text's number and on the tokens read, so that a row that was mixed up shows."""

    device = torch.device("cpu")

    def __init__(self, texts: list[int]) -> None:
        self.texts = texts
        self.read: list[tuple[int, ...]] = [() for _ in texts]

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.texts)

    def step(self, tokens: Tokens | Tensor, last: bool = False) -> Tensor:
        """Scores after each token that is read."""
        tokens = Tokens.of(tokens)
        if tokens.ids.shape[0] != self.rows:
            broken(f"it reads {tokens.ids.shape[0]} rows, and the decoder has {self.rows}: select was forgotten")
        scores = torch.zeros(*tokens.ids.shape, CHOICES, dtype=torch.float64)
        self.vectors = torch.zeros(*tokens.ids.shape, 4, dtype=torch.float64)
        for row, ids in enumerate(tokens.ids.tolist()):
            for place, token in enumerate(ids):
                if tokens.valid is None or tokens.valid[row, place]:
                    self.read[row] = (*self.read[row], token)
                seed = hash((self.texts[row], *self.read[row])) % 2**31
                generator = torch.Generator().manual_seed(seed)
                scores[row, place] = torch.randn(CHOICES, generator=generator, dtype=torch.float64)
                self.vectors[row, place] = torch.randn(4, generator=generator, dtype=torch.float64)
        return last_of(scores, tokens.valid)[:, None] if last else scores

    def select(self, rows: Tensor) -> None:
        """Keep these rows."""
        self.texts = [self.texts[row] for row in rows.tolist()]
        self.read = [self.read[row] for row in rows.tolist()]


def _found(subject: Subject, texts: list[int], length: int = LENGTH) -> list[list[Hypothesis]]:
    component = subject.component
    assert issubclass(component, Search)
    draft = Reader([text + 100 for text in texts]) if component.needs_draft else None
    request = Request(length=length, signs=SIGNS, draft=draft, streams=texts)
    return component(subject.options).search(Reader(list(texts)), request)


@law("search", "Every text gets a hypothesis, the best first, of finite score, no longer than was asked for.")
def answers(subject: Subject) -> None:
    """With room for one token, and for some."""
    for length in (1, LENGTH):
        found = _found(subject, [0, 1, 2], length)
        if len(found) != 3 or not all(found):
            broken(f"three texts get {[len(each) for each in found]} hypotheses")
        for each in found:
            for hypothesis in each:
                written = len(hypothesis.tokens) + hypothesis.finished
                if written > length:
                    broken(f"{written} tokens were written, the end counted; allowed are {length}")
                if not torch.tensor(hypothesis.score).isfinite():
                    broken(f"a hypothesis has the score {hypothesis.score}")
            if [it.score for it in each] != sorted((it.score for it in each), reverse=True):
                broken(f"the scores are {[it.score for it in each]}; wanted the best first")


@law("search", "Tokens that stand in no text are never written, nor is the end inside a text.")
def signs(subject: Subject) -> None:
    """Padding, the start, masks."""
    for each in _found(subject, [0, 1, 2, 3]):
        for hypothesis in each:
            wrong = [token for token in hypothesis.tokens if token in (*SIGNS.never, SIGNS.end)]
            if wrong:
                broken(f"it writes {hypothesis.tokens}, and {wrong[0]} stands in no text")


@law("search", "A text gets the same alone, beside others, and asked again: rows are never mixed up.")
def alone(subject: Subject) -> None:
    """Each row of the decoder is chosen together with what was written in it."""
    together = _found(subject, [0, 1, 2])
    again = _found(subject, [0, 1, 2])
    for text, found in enumerate(together):
        single = _found(subject, [text])[0]
        for name, other in (("alone", single), ("asked again", again[text])):
            if [it.tokens for it in other] != [it.tokens for it in found]:
                broken(f"text {text} gets {found[0].tokens}, {name} {other[0].tokens}")
