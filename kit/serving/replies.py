"""Answers in JSON: predictions as they are told to a program, and refusals."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from kit.serving.refusal import Refusal

if TYPE_CHECKING:
    from kit.predicting.prediction import Prediction


class Json(Response):
    """JSON that is always valid: a model may write half a character, or score with an infinity."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """The bytes to send."""
        return json.dumps(content, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


def refused(refusal: Refusal) -> Json:
    """Why a request is not answered."""
    return Json({"error": refusal.reason, "status": refusal.status}, refusal.status, refusal.headers)


def answers(predictions: Sequence[Prediction]) -> dict[str, Any]:
    """Predictions, in the order of the texts."""
    return {"answers": [_answer(prediction) for prediction in predictions]}


def _answer(prediction: Prediction) -> dict[str, Any]:
    return {
        "input": prediction.input,
        "outputs": [
            {
                "text": output.text,
                "score": output.score if math.isfinite(output.score) else None,
                "tokens": list(output.tokens),
                "finished": output.finished,
            }
            for output in prediction.outputs
        ],
        "problem": prediction.problem,
    }
