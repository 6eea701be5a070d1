"""`GET /attention`: the attention of one input as an HTML page, rendered on request."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request, Response
from starlette.responses import HTMLResponse

from kit import KitError
from kit_serve.request import Limits, Refusal, busy, text_schema, validate

if TYPE_CHECKING:
    from kit_serve.served_run import AttentionRenderer

log = logging.getLogger("kit_serve")
MAX_CHARACTERS = 1000
"""The most characters of an input, which is part of the URL."""
MAX_WAITING = 8
"""The most requests that wait while another page is rendered."""
_SAME_ORIGIN = {"X-Frame-Options": "SAMEORIGIN"}
_DESCRIPTIONS = {
    "text": "The text that the model reads.",
    "target": "What the model wrote, where that stands apart from the text.",
}
"""The query parameters; the first is required, and others are refused."""
_REFUSED: dict[int | str, str] = {
    403: "A page elsewhere asks.",
    422: "A parameter is missing, unknown, there twice or invalid, or the model cannot read the text.",
    500: "The page could not be made; the reason is in the log of the server.",
    503: "Others are waiting for such a page.",
}
_PLAIN = {"text/plain": {"schema": {"type": "string"}}}


def add_attention_page(app: FastAPI, render: AttentionRenderer | None, limits: Limits) -> None:
    """Adds the route; without a renderer its response is 404 and names the missing plugin."""
    limits = replace(limits, characters=min(limits.characters, MAX_CHARACTERS))
    render_lock = asyncio.Lock()
    waiting = 0

    @app.get(
        "/attention",
        response_class=HTMLResponse,
        include_in_schema=render is not None,
        openapi_extra={"parameters": _parameters(limits)},
        responses={status: {"description": why, "content": _PLAIN} for status, why in _REFUSED.items()},
    )
    async def attention(request: Request) -> Response:
        """A page that shows what attention did with `text`, and with `target` where the model writes one."""
        nonlocal waiting
        try:
            if render is None:
                raise Refusal(
                    404, "attention pages need a plugin that renders them, such as kit_inspect; none is in use here"
                )
            text, target = _query(request, limits)
            if waiting >= MAX_WAITING:
                raise busy("others are waiting for such a page; try again in a moment")
            waiting += 1
            try:
                async with render_lock:
                    html, policy = await asyncio.to_thread(_render, render, text, target)
            finally:
                waiting -= 1
        except Refusal as refusal:  # plain text, since a browser shows it in place of the page
            headers = {**_SAME_ORIGIN, **(refusal.headers or {})}
            return Response(refusal.reason, refusal.status, headers, "text/plain; charset=utf-8")
        # The sandbox gives the page an opaque origin: it cannot send requests to this server, even in its own tab.
        policy = f"{policy}; frame-ancestors 'self'; sandbox allow-scripts allow-downloads"
        return Response(html, headers={**_SAME_ORIGIN, "Content-Security-Policy": policy}, media_type="text/html")


def _parameters(limits: Limits) -> list[dict[str, Any]]:
    """Returns the query parameters for OpenAPI."""
    return [
        {"name": name, "in": "query", "required": name == "text", "schema": text_schema(limits, description)}
        for name, description in _DESCRIPTIONS.items()
    ]


def _render(render: AttentionRenderer, text: str, target: str | None) -> tuple[str, str]:
    try:
        return render(text, target)
    except KitError as error:
        raise Refusal(422, str(error)) from error
    except Exception as error:
        log.exception("attention could not be drawn")
        raise Refusal(500, "the attention could not be drawn; the reason is in the server's log") from error


def _query(request: Request, limits: Limits) -> tuple[str, str | None]:
    if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        raise Refusal(403, "a page elsewhere may not ask this; only the server's own page may")
    parameters = request.query_params
    for key in parameters:
        if key not in _DESCRIPTIONS or len(parameters.getlist(key)) > 1:
            raise Refusal(422, f"{key[:40]!a} is not wanted here, or is there twice; wanted: /attention?text=hello")
    if "text" not in parameters:
        raise Refusal(422, "there is no text; wanted: /attention?text=hello")
    found = [validate({"text": parameters[key]}, limits).texts[0] for key in _DESCRIPTIONS if key in parameters]
    return found[0], found[1] if len(found) > 1 else None
