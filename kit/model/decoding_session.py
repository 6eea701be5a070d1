"""Decoding session: incremental decoding of a batch with its caches, and the beams that share them.

Shapes: R rows (sequences or beams), A inputs, W beams per input, L new tokens, N = W · L, S cached tokens, K kept
tokens, T steps, V vocabulary, D model width.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from kit.contracts.stack import EncoderOutput
from kit.sequence.batch_layout import BatchLayout, TokenBatch, cached_property, last_token
from kit.sequence.observer import AttentionObserver

if TYPE_CHECKING:
    from kit.model.families import Model, Tower


@dataclass(frozen=True)
class GreedySteps:
    """Greedy decoding steps of a single sequence."""

    log_T: Tensor
    """Log-probability of each token."""
    token_T: Tensor
    """The tokens; the last of them is not read yet."""
    vectors: Tensor
    """Vectors of the last layer at the last token that was read: [1, 1, D]."""


MIN_EVICTION_LENGTH = 256
"""Cached tokens below which eviction is not worth its cost."""


class BeamTree:
    """Beams of each input in one cache row: the ancestor mask of each beam, and its length."""

    def __init__(self, ancestor_RS: Tensor, count_R: Tensor, width: int) -> None:
        self.ancestor_RS = ancestor_RS
        self.count_R = count_R
        self.width = width
        """Beams per input."""
        self._eviction_length = MIN_EVICTION_LENGTH
        """Cached tokens from which on dead ones are looked for."""

    @classmethod
    def start(cls, rows: int, read: BatchLayout | None, device: torch.device) -> BeamTree:
        """One beam per input, whose ancestors are all tokens so far."""
        length, count = (0, 0) if read is None else (read.length, read.count)
        count_1 = count if isinstance(count, Tensor) else torch.tensor(count, device=device)
        ancestor_RS = torch.ones(rows, length, dtype=torch.bool, device=device)
        return cls(ancestor_RS, count_1.reshape(-1).expand(rows), 1)

    def reorder(self, rows: Tensor) -> Tensor | None:
        """Continue with these beams; returns the cache rows to keep, or None where they stay."""
        texts, width = group_rows([row // self.width for row in rows.tolist()])
        same = texts == list(range(self.count_R.shape[0] // self.width))
        self.ancestor_RS, self.count_R = self.ancestor_RS.index_select(0, rows), self.count_R.index_select(0, rows)
        self.width = width
        return None if same else torch.tensor(texts, dtype=torch.long, device=rows.device)

    def evict_dead(self) -> Tensor | None:
        """Cached tokens to keep [A, K], where at most half of them are an ancestor of any beam; else None."""
        read = self.ancestor_RS.shape[1]
        if read <= self._eviction_length or not self.ancestor_RS.shape[0]:
            return None
        ancestor_AWS = self.ancestor_RS.view(-1, self.width, read)
        useful_AS = ancestor_AWS.any(1)
        most = int(useful_AS.sum(1).max())
        self._eviction_length = max(MIN_EVICTION_LENGTH, 2 * most)
        if 2 * most > read:
            return None
        # Rows with fewer keep some that no beam sees.
        kept_AK = useful_AS.to(torch.uint8).argsort(stable=True, dim=1, descending=True)[:, :most]
        self.ancestor_RS = ancestor_AWS.gather(2, kept_AK[:, None].expand(-1, self.width, -1)).flatten(0, 1)
        return kept_AK

    def fold_beams(self, tokens: TokenBatch) -> tuple[TokenBatch, BatchLayout]:
        """Tokens [R, L] folded into A cache rows [A, N], and their layout with the ancestor mask."""
        rows, length = tokens.ids.shape
        texts, new = rows // self.width, self.width * length
        ids = tokens.ids.reshape(texts, new)
        padding_mask = None if tokens.padding_mask is None else tokens.padding_mask.reshape(texts, new)
        features = {name: feature.reshape(texts, new) for name, feature in tokens.features.items()}
        count_AW = self.count_R.view(texts, self.width)
        layout = BatchLayout((texts, new), ids.device, padding_mask, False, count_AW[:, :1], features)
        before_ANS = self.ancestor_RS.view(texts, self.width, -1)
        layout.token_index = count_AW
        if length > 1 or tokens.padding_mask is not None:
            before_ANS = before_ANS.repeat_interleave(length, 1)
            layout.token_index = (self.count_R[:, None] + _new_token_index(tokens)).reshape(texts, new)
        own_ANN = own_tokens(self.width, length, ids.device).expand(texts, new, new)
        layout.ancestor_mask = torch.cat([before_ANS, own_ANN], 2)
        last_AWS = layout.ancestor_mask if length == 1 else layout.ancestor_mask[:, length - 1 :: length]
        self.ancestor_RS = last_AWS.reshape(rows, -1)
        self.count_R = self.count_R + (length if tokens.padding_mask is None else tokens.padding_mask.sum(1))
        return TokenBatch(ids, padding_mask, features, right_padded=False), layout


def _new_token_index(tokens: TokenBatch) -> Tensor:
    """Index of each new token among those of its row: [R or 1, L]."""
    if tokens.padding_mask is None:
        return torch.arange(tokens.ids.shape[1], device=tokens.ids.device)[None]
    return (tokens.padding_mask.cumsum(1) - 1).clamp(min=0)


def group_rows(texts: Sequence[int]) -> tuple[list[int], int]:
    """The inputs of these rows and the rows per input, if all have as many; else every row by itself, and 1."""
    runs = [(text, len(list(run))) for text, run in groupby(texts)]
    widths = {count for _, count in runs}
    return ([text for text, _ in runs], widths.pop()) if len(widths) == 1 else (list(texts), 1)


@lru_cache(maxsize=64)
def own_tokens(width: int, length: int, device: torch.device) -> Tensor:
    """Causal mask within each beam's new tokens: [N, N]."""
    row_N = torch.arange(width, device=device).repeat_interleave(length)
    token_N = torch.arange(length, device=device).repeat(width)
    return (row_N[:, None] == row_N) & (token_N[:, None] >= token_N)


MAX_GREEDY_STEPS = 16
"""Most greedy steps per call."""


class DecodingSession:
    """Incremental decoding of a batch, with the caches of all parts."""

    def __init__(
        self, model: Model, decoder: Tower, memory: EncoderOutput | None, observer: AttentionObserver | None
    ) -> None:
        self.model = model
        self.decoder = decoder
        self.memory = memory
        self.observer = observer
        self.state = decoder.stack.start()
        self.read: BatchLayout | None = None
        """Layout of the tokens so far; once beams share a cache, only that of its rows."""
        self.beam_tree: BeamTree | None = None
        """Beams that share cache rows, once a search has several per input; None before."""
        self.vectors: Tensor | None = None
        """Vectors of the last layer at the tokens of the last step: [R, L, D]."""

    @property
    def rows(self) -> int:
        """Sequences being generated; 1 before the first token where there is no encoder."""
        width = 1 if self.beam_tree is None else self.beam_tree.width
        if self.memory is not None:
            return self.memory.layout.rows * width
        return 1 if self.read is None else self.read.rows * width

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return next(self.decoder.parameters()).device

    def step(self, tokens: TokenBatch | Tensor, last: bool = False) -> Tensor:
        """Read tokens [R, L] after those so far; returns the logits of the next token after each: [R, L, V].

        last: only those after the last real token of each row: [R, 1, V].
        """
        tokens = TokenBatch.of(tokens)
        shape, padding_mask = tokens.ids.shape, tokens.padding_mask
        if self.beam_tree is None:
            layout = BatchLayout.of(tokens, self.read)
        else:
            tokens, layout = self.beam_tree.fold_beams(tokens)
        if self.read is None or self.beam_tree is None:
            self.read = layout if self.read is None else self.read.join(layout)
        if not last or shape[1] == 1:
            x, logits = self.model.decode_step(self.decoder, tokens, layout, self.memory, self.state, self.observer)
            self.vectors = x.view(*shape, -1)
            return logits.view(*shape, -1)
        x = self.decoder(tokens, layout, self.memory, self.state.materialize(), self.observer)
        self.vectors = x = x.view(*shape, -1)
        x = last_token(x, padding_mask)[:, None]
        return self.model.logits(x, BatchLayout((shape[0], 1), layout.device), self.decoder.embedding)

    def decode_greedy(self, token: Tensor, suppressed_ids: Tensor, end: int, most: int) -> GreedySteps | None:
        """Greedy decoding from a token [1, 1], for at most `most` steps, stopping after `end`.

        None, without any step, where steps have to be taken one by one.
        """
        if self.beam_tree is not None or self.observer is not None or self.read is None:
            return None
        tokens = TokenBatch.of(token)
        reads = [self.read]

        def layouts() -> Iterator[BatchLayout]:
            for _ in range(min(most, MAX_GREEDY_STEPS)):
                layout = BatchLayout.of(tokens, reads[-1])
                reads.append(reads[-1].join(layout))
                yield layout

        found = self.model.decode_greedy(self.decoder, tokens, layouts(), self.memory, self.state, suppressed_ids, end)
        if found is not None:
            self.read, self.vectors = reads[len(found.token_T)], found.vectors
        return found

    def reorder(self, rows: Tensor) -> None:
        """Reorder the rows of all caches; a row may be repeated (beams) or dropped (finished)."""
        if self.beam_tree is None and self.can_share_beams and group_rows(rows.tolist())[1] > 1:
            self.beam_tree = BeamTree.start(self.rows, self.read, rows.device)
            self.state.share_across_beams()
        chosen = rows if self.beam_tree is None else self.beam_tree.reorder(rows)
        if chosen is not None:
            self.state.reorder(chosen)
            self.read = None if self.read is None else self.read.reorder(chosen)
            self.memory = None if self.memory is None else self.memory.reorder(chosen)
        kept = None if self.beam_tree is None else self.beam_tree.evict_dead()
        if kept is not None:
            self.state.evict_except(kept)

    @cached_property
    def can_share_beams(self) -> bool:
        """Whether the beams of an input can share its cache; an observer is shown each by itself."""
        return self.observer is None and self.decoder.stack.supports_shared_beams()

    @property
    def bytes(self) -> int:
        """Bytes of all caches."""
        return self.state.bytes
