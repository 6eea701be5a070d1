"""Sequence generation: the rows of a search, the tokens that each has generated, and what may follow them.

Shapes: B prompts, R rows, L new tokens, T tokens generated so far, V vocabulary.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kit.contracts.constraint import Constraint, Encode, History
from kit.contracts.search import Decoder, Hypothesis, Request, Search
from kit.errors import KitError, PartNotFound
from kit.generation.next_token import FusedLogProbs, NextTokenLogProbs
from kit.kernels.decoding import supports_beam_topk
from kit.plugin.component import Options
from kit.plugin.registry import Registry
from kit.sequence.batch_layout import TokenBatch, last_token

TOKEN_BLOCK = 64
"""The token buffer grows by so many columns at a time: all of them are copied when rows are reordered."""


class GenerationState:
    """A decoder, the tokens that its rows have generated and the prompt of each row, which are reordered together."""

    def __init__(self, decoder: Decoder, request: Request) -> None:
        self.decoder = decoder
        self.request = request
        self.prompt = prompt_of(decoder, request)
        prompts, device = self.prompt.ids.shape[0], self.prompt.ids.device
        self.texts_R = torch.arange(prompts, device=device)
        """The index of the prompt of each row."""
        self.limits_R = limits_of(request, prompts).to(device)
        """The most tokens that each row may have."""
        self._tokens = torch.empty(prompts, TOKEN_BLOCK, dtype=torch.long, device=device)
        self.length = 0
        """How many tokens every row has."""
        self._suppressed_ids: Tensor | None = None
        self._ahead: deque[tuple[Tensor, Tensor]] = deque()
        """Log-probabilities and tokens of greedy steps that the decoder has taken in advance."""
        self._expected_R = self.texts_R
        """The tokens of the step before, which have to be appended next."""

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.texts_R.shape[0]

    @property
    def device(self) -> torch.device:
        """The device of the rows."""
        return self.texts_R.device

    @property
    def tokens_RT(self) -> Tensor:
        """The tokens that the rows have generated, [R, T]."""
        return self._tokens[:, : self.length]

    @property
    def history(self) -> History:
        """The history that constraints are given."""
        return History(self.tokens_RT, self.texts_R, self.limits_R - self.length, self.request.special_tokens.end)

    def prefill(self) -> NextTokenLogProbs:
        """Reads the prompt; returns log-probabilities of the first token."""
        return self.process_logits(self.decoder.step(self.prompt, last=True)[:, -1])

    def step(self, token_R: Tensor) -> NextTokenLogProbs:
        """Appends a token to each row and reads it; returns log-probabilities of the next one."""
        self._require_no_steps_ahead()
        self.append(token_R)
        features = {}
        if self.prompt.features:
            features = features_after(self.prompt, self.texts_R, torch.full_like(token_R[:, None], self.length))
        tokens = TokenBatch(token_R[:, None], None, features, right_padded=True)
        return self.process_logits(self.decoder.step(tokens, last=True)[:, -1])

    def step_greedy(self, token_R: Tensor) -> tuple[Tensor, Tensor]:
        """Appends a token to each row and reads it; returns log-probabilities [R] and ids [R] of the best ones.

        The token must be the one that the step before returned: a decoder may take several steps of one row at once.
        """
        if not self._ahead:
            self._ahead.extend(self._multiple_steps(token_R))
        elif not torch.equal(token_R, self._expected_R):
            raise KitError(
                f"step_greedy gave {self._expected_R.tolist()}, and {token_R.tolist()} was written; use step"
            )
        if not self._ahead:
            return self.step(token_R).best()
        self.append(token_R)
        log_R, self._expected_R = self._ahead.popleft()
        return log_R, self._expected_R

    def _multiple_steps(self, token_R: Tensor) -> Iterable[tuple[Tensor, Tensor]]:
        """Takes several greedy steps of a single row, where the decoder can."""
        decode_greedy = getattr(self.decoder, "decode_greedy", None)
        plain = self.rows == 1 and not self.prompt.features and not self.request.constraints
        most = int(self.limits_R[0]) - self.length - 1 if plain else 0
        if decode_greedy is None or self._suppressed_ids is None or most <= 1:
            return ()
        found = decode_greedy(token_R[:, None], self._suppressed_ids, self.request.special_tokens.end, most)
        return () if found is None else zip(found.log_T.split(1), found.token_T.split(1), strict=True)

    def _require_no_steps_ahead(self) -> None:
        if self._ahead:
            raise KitError("after step_greedy, only what it gives can be written, by step_greedy again")

    def append(self, token_R: Tensor) -> None:
        """Appends a token to each row, without reading it."""
        if self.length == self._tokens.shape[1]:
            self._tokens = torch.nn.functional.pad(self._tokens, (0, TOKEN_BLOCK))
        self._tokens[:, self.length] = token_R
        self.length += 1

    def reorder(self, rows: Tensor) -> None:
        """Selects rows in a new order; a row may occur several times or not at all."""
        self._require_no_steps_ahead()
        self.decoder.reorder(rows)
        self.texts_R, self.limits_R = self.texts_R.index_select(0, rows), self.limits_R.index_select(0, rows)
        self._tokens = self._tokens.index_select(0, rows)

    def process_logits(self, logits_RV: Tensor, history: History | None = None) -> NextTokenLogProbs:
        """Turns logits into log-probabilities, with special tokens and constraints applied.

        history: what constraints are given; left out, that of the rows.
        """
        if self._suppressed_ids is None:
            suppressed = {token for token in self.request.special_tokens.suppressed if token < logits_RV.shape[1]}
            self._suppressed_ids = torch.tensor(sorted(suppressed), dtype=torch.long, device=logits_RV.device)
        if not self.request.constraints and supports_beam_topk(logits_RV):
            return FusedLogProbs(logits_RV, self._suppressed_ids)
        log_RV = logits_RV.log_softmax(1)
        if self.request.constraints:
            history = self.history if history is None else history
            for constraint in self.request.constraints:
                log_RV = constraint.apply(log_RV, history)
        if self._suppressed_ids.shape[0]:
            log_RV.index_fill_(1, self._suppressed_ids, float("-inf"))
        return NextTokenLogProbs(log_RV)


def prompt_of(decoder: Decoder, request: Request) -> TokenBatch:
    """Returns the prompt of a request, or start tokens; every row must have at least one token."""
    if request.prompt is None:
        return TokenBatch.of(torch.full((decoder.rows, 1), request.special_tokens.start, device=decoder.device))
    prompt = request.prompt
    empty = prompt.ids.shape[1] == 0 or (prompt.padding_mask is not None and not bool(prompt.padding_mask.any(1).all()))
    if empty:
        raise KitError(
            "a prompt has no token; every text needs one to go on from, "
            f"if only the start token {request.special_tokens.start}"
        )
    return prompt


def limits_of(request: Request, prompts: int) -> Tensor:
    """Returns the most tokens to generate for each prompt, [B]."""
    length = request.length
    limits = [length] * prompts if isinstance(length, int) else list(length)
    if len(limits) != prompts:
        raise KitError(
            f"the request has {len(limits)} lengths for {prompts} texts; give one number, or one for each text"
        )
    if min(limits) < 1:
        raise KitError(f"the most tokens to write is {min(limits)}; wanted at least 1")
    return torch.tensor(limits, dtype=torch.long)


def features_after(prompt: TokenBatch, texts_R: Tensor, number_RL: Tensor) -> dict[str, Tensor]:
    """Returns the features [R, L] of generated tokens: flags are False, numbers are the last of the prompt.

    Positions continue those of the prompt. texts_R: the prompt of each row; number_RL: the index of each token among
    those generated for its row, from 1.
    """
    features = {}
    for name, feature_BL in prompt.features.items():
        last_R1 = last_token(feature_BL, prompt.padding_mask)[texts_R, None]
        if feature_BL.dtype == torch.bool:
            last_R1 = torch.zeros_like(last_R1)
        features[name] = last_R1 + number_RL if name == "position" else last_R1.expand_as(number_RL)
    return features


@dataclass(frozen=True)
class SequenceGenerator:
    """Generates sequences by a search, under the constraints that its options name."""

    search: Search
    constraints: Sequence[Constraint]

    @classmethod
    def build(
        cls, options: Options | None, registry: Registry, encode: Encode | None = None, vocabulary: int | None = None
    ) -> SequenceGenerator:
        """Builds the search and prepares its constraints.

        options: the search of a recipe; left out, the installed default with its default options.
        encode, vocabulary: of the target's tokenizer, for constraints that name texts or tokens.
        """
        if options is None:
            default = registry.default("search")
            if default is None:
                raise PartNotFound("no search is named, and no installed one is the default; write search: {use: ...}")
            options = default.component.options_type.model_validate({})
        constraints = [_part(each, registry) for each in getattr(options, "constraints", ())]
        for number, constraint in enumerate(constraints):
            constraint.prepare(encode)
            for objection in constraint.objections(vocabulary) if vocabulary is not None else ():
                raise KitError(f"search.constraints[{number}] ({constraint.name()}): {objection}")
        return cls(_part(options, registry), constraints)

    def generate(
        self,
        decoder: Decoder,
        length: int | Sequence[int] | None = None,
        prompt: TokenBatch | None = None,
        draft: Decoder | None = None,
        streams: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        """Returns the hypotheses for each prompt, the best first; length: left out, that of the options."""
        most = self.search.options.length if length is None else length
        return self.search.search(decoder, Request(most, self.constraints, prompt, draft, streams))


def _part(options: Options, registry: Registry) -> Any:
    component: Any = registry.part_for_options(type(options)).component
    return component(options)
