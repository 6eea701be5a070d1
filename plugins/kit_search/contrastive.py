"""Contrastive search: A Contrastive Framework for Neural Text Generation (Su et al. 2022).

Shapes: R rows, K candidates of a row, C tokens of context, D width, V vocabulary.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveInt
from torch import Tensor

from kit import Decoder, GenerationState, Hypothesis, KitError, Request, Search, SearchOptions


class ContrastiveOptions(SearchOptions):
    """Weighs the probability of a token against the similarity of its hidden state to the context."""

    use: Literal["contrastive"] = "contrastive"
    candidates: PositiveInt = 4
    """The number of most probable tokens that are tried at every step."""
    penalty: Annotated[float, Field(ge=0.0, le=1.0)] = 0.6
    """The weight of similarity: 0 is greedy search; 1 ignores probabilities."""


class ContrastiveSearch(Search):
    """Takes the candidate with the highest (1 - penalty) · probability - penalty · greatest cosine with the context.

    The context is everything that the decoder has read: the prompt or start token and generated tokens. Scores are
    log-probabilities.
    """

    options_type = ContrastiveOptions
    options: ContrastiveOptions
    needs_vectors = True

    def run(self, decoder: Decoder, request: Request) -> list[list[Hypothesis]]:
        """Returns one hypothesis for each sequence."""
        state, end = GenerationState(decoder, request), request.special_tokens.end
        found: dict[int, Hypothesis] = {}
        score_R = torch.zeros(state.rows, dtype=torch.float64, device=state.device)
        log_probs = state.prefill()
        context_RCD = F.normalize(_hidden_states(decoder), dim=-1)
        padding_RC = torch.zeros_like(context_RCD[:, :, 0], dtype=torch.bool)
        if state.prompt.padding_mask is not None:
            padding_RC = ~state.prompt.padding_mask
        while True:
            gain_RK, token_RK = log_probs.top(self.options.candidates)
            rows, count = gain_RK.shape
            state.reorder(torch.arange(rows, device=state.device).repeat_interleave(count))
            next_log_probs = state.step(token_RK.flatten())
            hidden_RKD = F.normalize(_hidden_states(decoder).view(rows, count, -1), dim=-1)
            similarity_RKC = hidden_RKD @ context_RCD.transpose(1, 2)
            similarity_RK = similarity_RKC.masked_fill(padding_RC[:, None], -1.0).amax(2)
            value_RK = (1 - self.options.penalty) * gain_RK.exp() - self.options.penalty * similarity_RK
            best_R1 = value_RK.masked_fill(gain_RK == float("-inf"), float("-inf")).argmax(1, keepdim=True)
            gain_R, token_R = gain_RK.gather(1, best_R1)[:, 0], token_RK.gather(1, best_R1)[:, 0]
            dead_end_R = gain_R == float("-inf")
            score_R = score_R + gain_R.masked_fill(dead_end_R, 0.0)
            ended_R = token_R == end
            done_R = dead_end_R | ended_R | (state.limits_R.view(rows, count)[:, 0] == state.length)
            chosen_R = best_R1[:, 0] + torch.arange(rows, device=state.device) * count
            for row in done_R.nonzero()[:, 0].tolist():
                tokens = state.tokens_RT[int(chosen_R[row])].tolist()
                tokens = tokens[:-1] if ended_R[row] or dead_end_R[row] else tokens
                sequence = int(state.texts_R[int(chosen_R[row])])
                found[sequence] = Hypothesis(tokens, float(score_R[row]), bool(ended_R[row] & ~dead_end_R[row]))
            unfinished = (~done_R).nonzero()[:, 0]
            if not unfinished.shape[0]:
                return [[found[sequence]] for sequence in sorted(found)]
            state.reorder(chosen_R[unfinished])
            log_probs, score_R = next_log_probs.reorder(chosen_R[unfinished]), score_R[unfinished]
            new_R1D = hidden_RKD.gather(1, best_R1[:, :, None].expand(-1, -1, hidden_RKD.shape[2]))
            context_RCD = torch.cat([context_RCD, new_R1D], 1)[unfinished]
            padding_RC = F.pad(padding_RC, (0, 1))[unfinished]


def _hidden_states(decoder: Any) -> Tensor:
    vectors: Tensor | None = getattr(decoder, "vectors", None)
    if vectors is None:
        raise KitError(
            f"contrastive search compares vectors, and {type(decoder).__name__} shows none; "
            f"give it a session of a model, or set `vectors` [rows, tokens, width] in `step`"
        )
    return vectors
