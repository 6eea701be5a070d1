"""The rows of a search that are being written: what each has written, and which tokens it may choose from next.

Shapes: B texts, R rows, T tokens written so far, V choices.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import torch
from torch import Tensor

from kit.contracts.constraint import History
from kit.contracts.search import Decoder, Request
from kit.decoding.choices import Choices, ScoredChoices
from kit.errors import KitError
from kit.native.likeliest import chooses
from kit.tokens import Tokens, last_of

COLUMNS = 64
"""Room is made for so many tokens at a time: more would be copied whenever rows are chosen."""


class Writing:
    """A decoder, what its rows wrote, and the text that each belongs to; rows are chosen in all of them together."""

    def __init__(self, decoder: Decoder, request: Request) -> None:
        self.decoder = decoder
        self.request = request
        self.prompt = prompt_of(decoder, request)
        texts, device = self.prompt.ids.shape[0], self.prompt.ids.device
        self.texts_R = torch.arange(texts, device=device)
        self.limits_R = limits_of(request, texts).to(device)
        """The most tokens that each row may write."""
        self._tokens = torch.empty(texts, COLUMNS, dtype=torch.long, device=device)
        self.length = 0
        """How many tokens every row has written."""
        self._never: Tensor | None = None
        self._ahead: deque[tuple[Tensor, Tensor]] = deque()
        """The likeliest choices of steps that the decoder has taken already."""
        self._promised = self.texts_R
        """What the last of them gave."""

    @property
    def rows(self) -> int:
        """How many rows are being written."""
        return self.texts_R.shape[0]

    @property
    def device(self) -> torch.device:
        """Where the rows live."""
        return self.texts_R.device

    @property
    def tokens_RT(self) -> Tensor:
        """What the rows wrote."""
        return self._tokens[:, : self.length]

    @property
    def history(self) -> History:
        """What constraints are told."""
        return History(self.tokens_RT, self.texts_R, self.limits_R - self.length, self.request.signs.end)

    def begin(self) -> Choices:
        """Read the prompt; what may be written first."""
        return self.restrict(self.decoder.step(self.prompt, last=True)[:, -1])

    def write(self, token_R: Tensor) -> Choices:
        """Write a token in each row, and read it; what may be written next."""
        self._expect_nothing_ahead()
        self.note(token_R)
        facts = {}
        if self.prompt.facts:
            facts = facts_after(self.prompt, self.texts_R, torch.full_like(token_R[:, None], self.length))
        tokens = Tokens(token_R[:, None], None, facts, right_padded=True)
        return self.restrict(self.decoder.step(tokens, last=True)[:, -1])

    def write_best(self, token_R: Tensor) -> tuple[Tensor, Tensor]:
        """Write a token in each row, and read it; the likeliest that may be written next, as `Choices.best` gives it.

        For whoever always writes the likeliest: of a single text, some decoders read several such tokens at once.
        """
        if not self._ahead:
            self._ahead.extend(self._stretch(token_R))
        elif not torch.equal(token_R, self._promised):
            raise KitError(f"write_best gave {self._promised.tolist()}, and {token_R.tolist()} was written; use write")
        if not self._ahead:
            return self.write(token_R).best()
        self.note(token_R)
        log_R, self._promised = self._ahead.popleft()
        return log_R, self._promised

    def _stretch(self, token_R: Tensor) -> Iterable[tuple[Tensor, Tensor]]:
        """The likeliest that follow, where the decoder can tell several at once."""
        stretch = getattr(self.decoder, "stretch", None)
        if stretch is None or self.rows > 1 or self.prompt.facts or self.request.constraints or self._never is None:
            return ()
        most = int(self.limits_R[0]) - self.length - 1
        found = stretch(token_R[:, None], self._never, self.request.signs.end, most) if most > 1 else None
        return () if found is None else zip(found.log_T.split(1), found.token_T.split(1), strict=True)

    def _expect_nothing_ahead(self) -> None:
        if self._ahead:
            raise KitError("after write_best, only what it gives can be written, by write_best again")

    def note(self, token_R: Tensor) -> None:
        """Write a token in each row, without reading it."""
        if self.length == self._tokens.shape[1]:
            self._tokens = torch.nn.functional.pad(self._tokens, (0, COLUMNS))
        self._tokens[:, self.length] = token_R
        self.length += 1

    def keep(self, rows: Tensor) -> None:
        """Go on with these rows, in this order; a row may be chosen several times or dropped."""
        self._expect_nothing_ahead()
        self.decoder.select(rows)
        self.texts_R, self.limits_R = self.texts_R.index_select(0, rows), self.limits_R.index_select(0, rows)
        self._tokens = self._tokens.index_select(0, rows)

    def restrict(self, scores_RV: Tensor, history: History | None = None) -> Choices:
        """What may be written, by the request's signs and constraints; history: of what, if not of these rows."""
        if self._never is None:
            never = sorted({token for token in self.request.signs.never if token < scores_RV.shape[1]})
            self._never = torch.tensor(never, dtype=torch.long, device=scores_RV.device)
        if not self.request.constraints and chooses(scores_RV):
            return ScoredChoices(scores_RV, self._never)
        log_RV = scores_RV.log_softmax(1)
        if self.request.constraints:
            history = self.history if history is None else history
            for constraint in self.request.constraints:
                log_RV = constraint.apply(log_RV, history)
        if self._never.shape[0]:
            log_RV.index_fill_(1, self._never, float("-inf"))
        return Choices(log_RV)


def prompt_of(decoder: Decoder, request: Request) -> Tokens:
    """What is read first; every row must have a token to go on from."""
    if request.prompt is None:
        return Tokens.of(torch.full((decoder.rows, 1), request.signs.start, device=decoder.device))
    prompt = request.prompt
    empty = prompt.ids.shape[1] == 0 or (prompt.valid is not None and not bool(prompt.valid.any(1).all()))
    if empty:
        raise KitError(
            f"a prompt has no token; every text needs one to go on from, if only the start token {request.signs.start}"
        )
    return prompt


def limits_of(request: Request, texts: int) -> Tensor:
    """[B]: the most tokens to write for each text."""
    length = request.length
    limits = [length] * texts if isinstance(length, int) else list(length)
    if len(limits) != texts:
        raise KitError(
            f"the request has {len(limits)} lengths for {texts} texts; give one number, or one for each text"
        )
    if min(limits) < 1:
        raise KitError(f"the most tokens to write is {min(limits)}; wanted at least 1")
    return torch.tensor(limits, dtype=torch.long)


def facts_after(prompt: Tokens, texts_R: Tensor, number_RL: Tensor) -> dict[str, Tensor]:
    """What holds of written tokens, [R, L]: flags are off, numbers are the prompt's last, positions go on from there.

    texts_R: the prompt that each row goes on from; number_RL: which of a text's written tokens each is, from 1.
    """
    facts = {}
    for name, fact_BL in prompt.facts.items():
        last_R1 = last_of(fact_BL, prompt.valid)[texts_R, None]
        if fact_BL.dtype == torch.bool:
            last_R1 = torch.zeros_like(last_R1)
        facts[name] = last_R1 + number_RL if name == "position" else last_R1.expand_as(number_RL)
    return facts
