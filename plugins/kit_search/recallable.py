"""A decoder that can unread guesses: while one row of a text reads them, another one waits; by choosing rows alone.

Shapes: A texts still being written, L tokens read at once, V choices.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kit import Decoder, Tokens, facts_after


class Recallable:
    """Two rows for each text between `fork` and `settle`: the first one waits, the second one guesses."""

    def __init__(self, decoder: Decoder, prompt: Tokens) -> None:
        self.decoder = decoder
        self.prompt = prompt
        self.texts_A = torch.arange(prompt.ids.shape[0], device=prompt.ids.device)
        self.waiting: list[list[int]] = [[] for _ in range(prompt.ids.shape[0])]
        """What the waiting row of each text has read after the prompt."""
        self.guessing: list[list[int]] = []

    def begin(self) -> Tensor:
        """Read the prompt; scores of what follows, [A, V]."""
        return self.decoder.step(self.prompt, last=True)[:, -1]

    def fork(self) -> None:
        """Begin to guess."""
        self._select([*range(len(self.waiting)), *range(len(self.waiting))])
        self.guessing = [list(read) for read in self.waiting]

    def read(self, waiting: Sequence[list[int]], guessing: Sequence[list[int]]) -> list[Tensor]:
        """Read tokens in both rows of each text; for each text the scores after every token of the second, [L, V]."""
        rows = [*waiting, *guessing]
        tokens = Tokens.from_lists(rows, device=self.prompt.ids.device)
        before = [*self.waiting, *self.guessing]
        starts_R1 = torch.tensor([[len(read)] for read in before], device=tokens.ids.device)
        number_RL = starts_R1 + torch.arange(1, tokens.ids.shape[1] + 1, device=tokens.ids.device)
        facts = facts_after(self.prompt, self.texts_A.repeat(2), number_RL)
        scores_RLV = self.decoder.step(Tokens(tokens.ids, tokens.valid, facts, right_padded=True))
        for read, new in zip(before, rows, strict=True):
            read += new
        return [scores_RLV[len(waiting) + text, : len(new)] for text, new in enumerate(guessing)]

    def settle(self, written: Sequence[list[int]], staying: Sequence[int]) -> None:
        """Go on with some texts: from the guesses where what was written bears them out, else from before them."""
        count, rows = len(self.waiting), []
        for text in staying:
            guessed = self.guessing[text]
            right = written[text][: len(guessed)] == guessed
            rows.append(text + count if right else text)
            if right:
                self.waiting[text] = guessed
        self._stay(rows, staying)

    def leave(self, staying: Sequence[int]) -> None:
        """Go on with some of the texts, when nothing was guessed."""
        self._stay(staying, staying)

    def _stay(self, rows: Sequence[int], texts: Sequence[int]) -> None:
        if rows:
            self._select(rows)
        self.texts_A = self.texts_A[torch.tensor(list(texts), dtype=torch.long, device=self.texts_A.device)]
        self.waiting, self.guessing = [self.waiting[text] for text in texts], []

    def _select(self, rows: Sequence[int]) -> None:
        self.decoder.select(torch.tensor(list(rows), dtype=torch.long, device=self.prompt.ids.device))
