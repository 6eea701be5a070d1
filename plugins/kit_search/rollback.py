"""Rollback of a decoder for speculative decoding, by reordering rows alone: one row reads the draft, another waits.

Shapes: A unfinished sequences, L tokens read at once, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kit import Decoder, TokenBatch, features_after


class RollbackDecoder:
    """A decoder with two rows for each sequence between `fork` and `settle`: one waits, the other reads the draft."""

    def __init__(self, decoder: Decoder, prompt: TokenBatch) -> None:
        self.decoder = decoder
        self.prompt = prompt
        self.prompts_A = torch.arange(prompt.ids.shape[0], device=prompt.ids.device)
        self.waiting: list[list[int]] = [[] for _ in range(prompt.ids.shape[0])]
        """The tokens that the waiting row of each sequence has read after the prompt."""
        self.drafted: list[list[int]] = []
        """The tokens that the other row has read."""

    def prefill(self) -> Tensor:
        """Reads the prompt; returns logits of the next token, [A, V]."""
        return self.decoder.step(self.prompt, last=True)[:, -1]

    def fork(self) -> None:
        """Doubles the rows of each sequence."""
        self._select([*range(len(self.waiting)), *range(len(self.waiting))])
        self.drafted = [list(read) for read in self.waiting]

    def read(self, waiting: Sequence[list[int]], drafted: Sequence[list[int]]) -> list[Tensor]:
        """Reads tokens in both rows of each sequence; returns the logits after each token of the second, [L, V]."""
        rows = [*waiting, *drafted]
        tokens = TokenBatch.from_lists(rows, device=self.prompt.ids.device)
        before = [*self.waiting, *self.drafted]
        starts_R1 = torch.tensor([[len(read)] for read in before], device=tokens.ids.device)
        number_RL = starts_R1 + torch.arange(1, tokens.ids.shape[1] + 1, device=tokens.ids.device)
        features = features_after(self.prompt, self.prompts_A.repeat(2), number_RL)
        logits_RLV = self.decoder.step(TokenBatch(tokens.ids, tokens.padding_mask, features, right_padded=True))
        for read, new in zip(before, rows, strict=True):
            read += new
        return [logits_RLV[len(waiting) + sequence, : len(new)] for sequence, new in enumerate(drafted)]

    def settle(self, accepted_tokens: Sequence[list[int]], kept: Sequence[int]) -> None:
        """Keeps some sequences: the drafted row where its tokens were accepted, else the waiting one."""
        count, rows = len(self.waiting), []
        for sequence in kept:
            draft = self.drafted[sequence]
            accepted = accepted_tokens[sequence][: len(draft)] == draft
            rows.append(sequence + count if accepted else sequence)
            if accepted:
                self.waiting[sequence] = draft
        self._keep(rows, kept)

    def leave(self, kept: Sequence[int]) -> None:
        """Keeps some sequences while there is one row of each."""
        self._keep(kept, kept)

    def _keep(self, rows: Sequence[int], sequences: Sequence[int]) -> None:
        if rows:
            self._select(rows)
        self.prompts_A = self.prompts_A[torch.tensor(list(sequences), dtype=torch.long, device=self.prompts_A.device)]
        self.waiting, self.drafted = [self.waiting[sequence] for sequence in sequences], []

    def _select(self, rows: Sequence[int]) -> None:
        self.decoder.reorder(torch.tensor(list(rows), dtype=torch.long, device=self.prompt.ids.device))
