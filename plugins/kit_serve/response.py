"""HTTP responses: predictions and refusals as JSON, and the web page with its content security policy."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from starlette.responses import Response

from kit import Prediction
from kit_serve.request import Refusal


class JsonResponse(Response):
    """A response of strictly valid JSON in UTF-8, also if a model generates a lone surrogate."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Encodes data as the body of the response."""
        return json.dumps(content, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


def refusal_response(refusal: Refusal) -> JsonResponse:
    """Returns a refusal as `{"error": reason, "status": status}`."""
    return JsonResponse({"error": refusal.reason, "status": refusal.status}, refusal.status, refusal.headers)


def predictions_json(predictions: Sequence[Prediction]) -> dict[str, Any]:
    """Predictions as JSON data, in the order of the inputs; a non-finite score becomes null."""
    return {"answers": [_prediction_json(prediction) for prediction in predictions]}


def _prediction_json(prediction: Prediction) -> dict[str, Any]:
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


@dataclass(frozen=True)
class Page:
    """A web page and its content security policy."""

    html: str
    policy: str
    """Scripts and styles of the file are allowed by their hashes, injected ones are not; fetches go to this server."""


@cache
def page() -> Page:
    """Reads the web page from the files of this package."""
    html = (files("kit_serve") / "page.html").read_text(encoding="utf-8")
    policy = {
        "default-src": "'none'",
        "script-src": _hashes(html, "script"),
        "style-src": _hashes(html, "style"),
        "connect-src": "'self'",
        "img-src": "data:",
        "frame-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
    }
    return Page(html, "; ".join(f"{name} {value}" for name, value in policy.items()))


def _hashes(html: str, tag: str) -> str:
    blocks = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
    digests = (base64.b64encode(hashlib.sha256(block.encode()).digest()).decode() for block in blocks)
    return " ".join(f"'sha256-{digest}'" for digest in digests)
