"""ASGI application: routes, error handlers, and awaiting the predictions of a request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from kit import KitError, __version__
from kit_serve.attention_page import add_attention_page
from kit_serve.batching import Batcher, BatchPredictor, ModelFailed
from kit_serve.guard import Guard
from kit_serve.request import Limits, PredictRequest, Refusal, body_schema, disconnected, read_request
from kit_serve.response import JsonResponse, page, predictions_json, refusal_response
from kit_serve.served_run import AttentionRenderer, RunDescription

_CLIENT_CLOSED_REQUEST = Response(status_code=499)  # the client has closed the connection


def application(
    predictor: BatchPredictor,
    description: RunDescription,
    limits: Limits | None = None,
    names: Collection[str] | None = None,
    attention: AttentionRenderer | None = None,
) -> Guard:
    """Builds the application of one predictor.

    names: accepted Host names, None for any; attention: the renderer of attention pages, where there is one.
    """
    limits = limits or Limits()
    batcher = Batcher(predictor, limits)
    started = time.monotonic()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(batcher.close)

    app = FastAPI(
        title=f"kit serve {description.run}", version=__version__, docs_url=None, redoc_url=None, lifespan=lifespan
    )
    app.add_exception_handler(Refusal, _on_refusal)
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_exception_handler(Exception, _on_error)

    body = {"requestBody": {"required": True, "content": {"application/json": {"schema": body_schema(limits)}}}}

    @app.post("/predict", openapi_extra=body, response_class=JsonResponse)
    async def predict(request: Request) -> Response:
        """Answer one text, or a list of texts, in order."""
        try:
            body = await read_request(request, limits)
        except ClientDisconnect:
            return _CLIENT_CLOSED_REQUEST
        return await _predict(batcher, body, request)

    @app.head("/health", include_in_schema=False)
    @app.get("/health", response_class=JsonResponse)
    async def health() -> Response:
        """The state of the server and of its queue, for monitoring."""
        queue = {
            "waiting": batcher.waiting,
            "working": batcher.working,
            "limit": limits.queue,
            "answered": batcher.answered,
            "batches": batcher.batches,
        }
        uptime = round(time.monotonic() - started, 3)
        run = {"run": description.run, "task": description.task, "parameters": description.parameters}
        return JsonResponse({"status": "ok", **run, "uptime": uptime, "queue": queue})

    @app.head("/about", include_in_schema=False)
    @app.get("/about", response_class=JsonResponse)
    async def about() -> Response:
        """What the page shows: the run, its task, example inputs, and the limits."""
        most = {"texts": limits.texts, "characters": limits.characters, "nbest": limits.outputs, "body": limits.body}
        return JsonResponse(
            {**asdict(description), "limits": most, "attention": attention is not None, "version": __version__}
        )

    @app.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    async def index() -> Response:
        """The web page."""
        found = page()
        return Response(found.html, media_type="text/html", headers={"Content-Security-Policy": found.policy})

    add_attention_page(app, attention, limits)
    return Guard(app, names, limits.clients)


async def _predict(batcher: Batcher, body: PredictRequest, request: Request) -> Response:
    """Awaits the predictions; a client that disconnects cancels its inputs that are still queued."""
    future = asyncio.wrap_future(batcher.submit(body.texts, body.nbest))
    disconnect = asyncio.ensure_future(disconnected(request))
    try:
        either: set[asyncio.Future[Any]] = {future, disconnect}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not future.done():
            return _CLIENT_CLOSED_REQUEST
        return JsonResponse(predictions_json(await future))
    except KitError as error:
        raise Refusal(422, str(error)) from error
    except ModelFailed as error:
        raise Refusal(500, str(error)) from error
    finally:
        future.cancel()
        disconnect.cancel()
        with suppress(asyncio.CancelledError):
            await disconnect


async def _on_refusal(_: Request, refusal: Exception) -> Response:
    assert isinstance(refusal, Refusal)
    return refusal_response(refusal)


async def _on_http_exception(request: Request, error: Exception) -> Response:
    """Returns the response to an unknown path or method."""
    assert isinstance(error, HTTPException)
    known: dict[int, Any] = {
        404: "nothing is here; there is POST /predict, GET /health, GET /about, GET /openapi.json and the page at /",
        405: f"{request.method} is not for {request.url.path}; allowed here: {(error.headers or {}).get('Allow', '')}",
    }
    return refusal_response(Refusal(error.status_code, known.get(error.status_code, str(error.detail)), error.headers))


async def _on_error(_: Request, error: Exception) -> Response:
    """Returns status 500 without the cause, which is logged."""
    return refusal_response(Refusal(500, "the server failed on this request; the reason is in its log"))
