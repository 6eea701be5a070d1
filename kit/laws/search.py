"""Laws of searches, tested on a decoder whose logits are a hash of the tokens of each row."""

from __future__ import annotations

import torch
from torch import Tensor

from kit.contracts.search import Hypothesis, Request, Search, SpecialTokenIds
from kit.laws.law import broken, law
from kit.laws.subject import Subject
from kit.sequence.batch_layout import TokenBatch, last_token

VOCABULARY = 7
SPECIAL_TOKENS = SpecialTokenIds(start=1, end=2, suppressed=(0, 1, 3))
LENGTH = 4


class HashDecoder:
    """A decoder whose logits depend on the prompt and all tokens of a row, so that mixed-up rows are detected."""

    device = torch.device("cpu")

    def __init__(self, prompts: list[int]) -> None:
        self.prompts = prompts
        self.tokens_so_far: list[tuple[int, ...]] = [() for _ in prompts]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.prompts)

    def step(self, tokens: TokenBatch | Tensor, last: bool = False) -> Tensor:
        """Returns logits [B, L, V] after each token, or [B, 1, V] after the last."""
        tokens = TokenBatch.of(tokens)
        if tokens.ids.shape[0] != self.rows:
            broken(f"it reads {tokens.ids.shape[0]} rows, and the decoder has {self.rows}: reorder was not called")
        logits = torch.zeros(*tokens.ids.shape, VOCABULARY, dtype=torch.float64)
        self.vectors = torch.zeros(*tokens.ids.shape, 4, dtype=torch.float64)
        for row, ids in enumerate(tokens.ids.tolist()):
            for index, token in enumerate(ids):
                if tokens.padding_mask is None or tokens.padding_mask[row, index]:
                    self.tokens_so_far[row] = (*self.tokens_so_far[row], token)
                seed = hash((self.prompts[row], *self.tokens_so_far[row])) % 2**31
                generator = torch.Generator().manual_seed(seed)
                logits[row, index] = torch.randn(VOCABULARY, generator=generator, dtype=torch.float64)
                self.vectors[row, index] = torch.randn(4, generator=generator, dtype=torch.float64)
        return last_token(logits, tokens.padding_mask)[:, None] if last else logits

    def reorder(self, rows: Tensor) -> None:
        """Selects rows in a new order."""
        self.prompts = [self.prompts[row] for row in rows.tolist()]
        self.tokens_so_far = [self.tokens_so_far[row] for row in rows.tolist()]


def _search(subject: Subject, prompts: list[int], length: int = LENGTH) -> list[list[Hypothesis]]:
    component = subject.component
    assert issubclass(component, Search)
    draft = HashDecoder([prompt + 100 for prompt in prompts]) if component.needs_draft else None
    request = Request(length=length, special_tokens=SPECIAL_TOKENS, draft=draft, streams=prompts)
    return component(subject.options).search(HashDecoder(list(prompts)), request)


@law("search", "Every prompt gets hypotheses, the best first, with finite scores and within the length limit.")
def hypotheses(subject: Subject) -> None:
    """Searches with a limit of one token, and of several."""
    for length in (1, LENGTH):
        found = _search(subject, [0, 1, 2], length)
        if len(found) != 3 or not all(found):
            broken(f"three texts get {[len(each) for each in found]} hypotheses")
        for each in found:
            for hypothesis in each:
                generated = len(hypothesis.tokens) + hypothesis.finished
                if generated > length:
                    broken(f"{generated} tokens were written, the end counted; allowed are {length}")
                if not torch.tensor(hypothesis.score).isfinite():
                    broken(f"a hypothesis has the score {hypothesis.score}")
            if [it.score for it in each] != sorted((it.score for it in each), reverse=True):
                broken(f"the scores are {[it.score for it in each]}; wanted the best first")


@law("search", "Suppressed tokens are never generated, nor the end token inside a sequence.")
def special_tokens(subject: Subject) -> None:
    """Searches for four prompts, and checks all tokens of their hypotheses."""
    for each in _search(subject, [0, 1, 2, 3]):
        for hypothesis in each:
            wrong = [token for token in hypothesis.tokens if token in (*SPECIAL_TOKENS.suppressed, SPECIAL_TOKENS.end)]
            if wrong:
                broken(f"it writes {hypothesis.tokens}, and {wrong[0]} must not be generated")


@law("search", "A prompt gets the same hypotheses alone, in a batch and repeated.")
def batch_invariance(subject: Subject) -> None:
    """Compares tokens of hypotheses; the decoder detects rows that are not reordered with their tokens."""
    batched = _search(subject, [0, 1, 2])
    again = _search(subject, [0, 1, 2])
    for prompt, found in enumerate(batched):
        single = _search(subject, [prompt])[0]
        for name, other in (("alone", single), ("repeated", again[prompt])):
            if [it.tokens for it in other] != [it.tokens for it in found]:
                broken(f"text {prompt} gets {found[0].tokens}, {name} {other[0].tokens}")
