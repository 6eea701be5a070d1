"""The application: its addresses, and what becomes of a request between the queue and the answer."""

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

from kit import __version__
from kit.errors import KitError
from kit.serving import attention
from kit.serving.about import About
from kit.serving.batching import Batcher, ModelFailed, Predicts
from kit.serving.guard import Guard
from kit.serving.limits import Limits
from kit.serving.page import page
from kit.serving.question import SCHEMA, Question
from kit.serving.reading import read_question, until_gone
from kit.serving.refusal import Refusal
from kit.serving.replies import Json, answers, refused

_GONE = Response(status_code=499)  # what nobody is there to read
_BODY = {"requestBody": {"required": True, "content": {"application/json": {"schema": SCHEMA}}}}


def application(
    predictor: Predicts, about: About, limits: Limits | None = None, names: Collection[str] | None = None
) -> Guard:
    """A server for one predictor.

    names: the names it may be called by in a request's Host header; left out, any.
    """
    limits = limits or Limits()
    batcher = Batcher(predictor, limits)
    started = time.monotonic()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(batcher.close)

    app = FastAPI(title=f"kit serve {about.run}", version=__version__, docs_url=None, redoc_url=None, lifespan=lifespan)
    app.add_exception_handler(Refusal, _refuse)
    app.add_exception_handler(HTTPException, _explain)
    app.add_exception_handler(Exception, _apologise)

    @app.post("/predict", openapi_extra=_BODY, response_class=Json)
    async def predict(request: Request) -> Response:
        """Answer one text, or a list of texts, in order."""
        try:
            question = await read_question(request, limits)
        except ClientDisconnect:
            return _GONE
        return await _answer(batcher, question, request)

    @app.head("/health", include_in_schema=False)
    @app.get("/health", response_class=Json)
    async def health() -> Response:
        """Whether the server works, for whoever watches it."""
        queue = {
            "waiting": batcher.waiting,
            "working": batcher.working,
            "limit": limits.queue,
            "answered": batcher.answered,
            "batches": batcher.batches,
        }
        uptime = round(time.monotonic() - started, 3)
        facts = {"run": about.run, "task": about.task, "parameters": about.parameters}
        return Json({"status": "ok", **facts, "uptime": uptime, "queue": queue})

    @app.head("/about", include_in_schema=False)
    @app.get("/about", response_class=Json)
    async def tell() -> Response:
        """What the page shows: the run, its task, a few texts to try, and the limits."""
        most = {"texts": limits.texts, "characters": limits.characters, "nbest": limits.nbest, "body": limits.body}
        shows = isinstance(predictor, attention.Draws)
        return Json({**asdict(about), "limits": most, "attention": shows, "version": __version__})

    @app.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    async def show() -> Response:
        """The page for people."""
        found = page()
        return Response(found.html, media_type="text/html", headers={"Content-Security-Policy": found.policy})

    attention.add_to(app, predictor, limits)
    return Guard(app, names, limits.clients)


async def _answer(batcher: Batcher, question: Question, request: Request) -> Response:
    """Wait for the answers; stop waiting, and do not begin what has not begun, when the client goes away."""
    future = asyncio.wrap_future(batcher.submit(question.texts, question.nbest))
    gone = asyncio.ensure_future(until_gone(request))
    try:
        either: set[asyncio.Future[Any]] = {future, gone}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not future.done():
            return _GONE
        return Json(answers(await future))
    except KitError as error:
        raise Refusal(422, str(error)) from error
    except ModelFailed as error:
        raise Refusal(500, str(error)) from error
    finally:
        future.cancel()
        gone.cancel()
        with suppress(asyncio.CancelledError):
            await gone


async def _refuse(_: Request, refusal: Exception) -> Response:
    assert isinstance(refusal, Refusal)
    return refused(refusal)


async def _explain(request: Request, error: Exception) -> Response:
    """An address or a method that is not there."""
    assert isinstance(error, HTTPException)
    known: dict[int, Any] = {
        404: "nothing is here; there is POST /predict, GET /health, GET /about, GET /openapi.json and the page at /",
        405: f"{request.method} is not for {request.url.path}; allowed here: {(error.headers or {}).get('Allow', '')}",
    }
    return refused(Refusal(error.status_code, known.get(error.status_code, str(error.detail)), error.headers))


async def _apologise(_: Request, error: Exception) -> Response:
    """A mistake in the server: who asked learns that there is one; who runs it finds the rest in the log."""
    return refused(Refusal(500, "the server failed on this request; the reason is in its log"))
