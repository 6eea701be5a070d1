"""Likely tokens that do not repeat what was said: A Contrastive Framework for Neural Text Generation (Su et al. 2022).

Shapes: R rows, K candidates a row, C tokens of context, D width of a vector, V choices.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveInt
from torch import Tensor

from kit import Decoder, Hypothesis, KitError, Request, Search, SearchOptions, Writing


class ContrastiveOptions(SearchOptions):
    """Weighs how likely a token is against how like the context it would be."""

    use: Literal["contrastive"] = "contrastive"
    candidates: PositiveInt = 4
    """How many of the most probable tokens are tried at every step."""
    penalty: Annotated[float, Field(ge=0.0, le=1.0)] = 0.6
    """How much likeness counts: 0 is greedy search; 1 looks at nothing but likeness."""


class ContrastiveSearch(Search):
    """Takes the candidate with the highest (1 - penalty) · probability - penalty · greatest cosine with the context.

    The context is what the decoder read: prompt or start token, and what was written. A score is a log-probability.
    """

    options_type = ContrastiveOptions
    options: ContrastiveOptions
    needs_vectors = True

    def run(self, decoder: Decoder, request: Request) -> list[list[Hypothesis]]:
        """One hypothesis for each text."""
        writing, end = Writing(decoder, request), request.signs.end
        found: dict[int, Hypothesis] = {}
        score_R = torch.zeros(writing.rows, dtype=torch.float64, device=writing.device)
        choices = writing.begin()
        context_RCD = F.normalize(_vectors(decoder), dim=-1)
        hidden_RC = torch.zeros_like(context_RCD[:, :, 0], dtype=torch.bool)
        if writing.prompt.valid is not None:
            hidden_RC = ~writing.prompt.valid
        while True:
            gain_RK, token_RK = choices.top(self.options.candidates)
            rows, count = gain_RK.shape
            writing.keep(torch.arange(rows, device=writing.device).repeat_interleave(count))
            tried = writing.write(token_RK.flatten())
            vector_RKD = F.normalize(_vectors(decoder).view(rows, count, -1), dim=-1)
            like_RKC = vector_RKD @ context_RCD.transpose(1, 2)
            like_RK = like_RKC.masked_fill(hidden_RC[:, None], -1.0).amax(2)
            value_RK = (1 - self.options.penalty) * gain_RK.exp() - self.options.penalty * like_RK
            best_R1 = value_RK.masked_fill(gain_RK == float("-inf"), float("-inf")).argmax(1, keepdim=True)
            gain_R, token_R = gain_RK.gather(1, best_R1)[:, 0], token_RK.gather(1, best_R1)[:, 0]
            stuck_R = gain_R == float("-inf")
            score_R = score_R + gain_R.masked_fill(stuck_R, 0.0)
            ended_R = token_R == end
            closing_R = stuck_R | ended_R | (writing.limits_R.view(rows, count)[:, 0] == writing.length)
            chosen_R = best_R1[:, 0] + torch.arange(rows, device=writing.device) * count
            for row in closing_R.nonzero()[:, 0].tolist():
                tokens = writing.tokens_RT[int(chosen_R[row])].tolist()
                tokens = tokens[:-1] if ended_R[row] or stuck_R[row] else tokens
                text = int(writing.texts_R[int(chosen_R[row])])
                found[text] = Hypothesis(tokens, float(score_R[row]), bool(ended_R[row] & ~stuck_R[row]))
            going = (~closing_R).nonzero()[:, 0]
            if not going.shape[0]:
                return [[found[text]] for text in sorted(found)]
            writing.keep(chosen_R[going])
            choices, score_R = tried.select(chosen_R[going]), score_R[going]
            newest_R1D = vector_RKD.gather(1, best_R1[:, :, None].expand(-1, -1, vector_RKD.shape[2]))
            context_RCD = torch.cat([context_RCD, newest_R1D], 1)[going]
            hidden_RC = F.pad(hidden_RC, (0, 1))[going]


def _vectors(decoder: Any) -> Tensor:
    vectors: Tensor | None = getattr(decoder, "vectors", None)
    if vectors is None:
        raise KitError(
            f"contrastive search compares vectors, and {type(decoder).__name__} shows none; "
            f"give it a session of a model, or set `vectors` [rows, tokens, width] in `step`"
        )
    return vectors
