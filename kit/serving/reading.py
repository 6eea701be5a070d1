"""The body of a request, read with a limit on its size and on the time it takes, as JSON and nothing looser."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from starlette.requests import Request

from kit.serving.limits import Limits
from kit.serving.question import EXAMPLE, Question, check, shown
from kit.serving.refusal import Refusal

_READ_AWAY = 32
"""How many times the limit of a body that is too large is still read, so that a client that only reads once it has
sent everything gets to see why it was refused."""


async def read_question(request: Request, limits: Limits) -> Question:
    """Read and check a request, or refuse it."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refusal(415, f"the content type is {kind or 'missing'!r}; wanted application/json, such as {EXAMPLE}")
    try:
        async with asyncio.timeout(limits.patience):
            body = await _read(request, limits.body)
    except TimeoutError:
        raise Refusal(408, f"the request was not complete after {limits.patience:g} seconds") from None
    return check(parse(body), limits)


async def _read(request: Request, limit: int) -> bytes:
    announced = request.headers.get("content-length", "")
    too_large = Refusal(413, f"the body is larger than {limit:,} bytes", {"Connection": "close"})
    if announced.isdecimal() and int(announced) > limit and "expect" in request.headers:
        raise too_large  # the client waits for our word before it sends anything
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size <= limit:
            pieces.append(piece)
        elif size > _READ_AWAY * limit:
            break
        else:
            pieces.clear()
    if size > limit:
        raise too_large
    return b"".join(pieces)


def parse(body: bytes) -> Any:
    """JSON, strictly: in UTF-8, every key once, numbers that are numbers."""
    if not body:
        raise Refusal(400, f"the body is empty; wanted JSON, such as {EXAMPLE}")
    try:
        return json.loads(body.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_number)
    except UnicodeDecodeError as error:
        raise Refusal(400, f"the body is not UTF-8: byte {error.start} is {body[error.start]:#04x}") from None
    except json.JSONDecodeError as error:
        raise Refusal(
            400, f"the body is not JSON: {error.msg}, line {error.lineno}, column {error.colno}; wanted {EXAMPLE}"
        ) from None
    except RecursionError:
        raise Refusal(400, "the body is nested too deeply") from None
    except ValueError as error:  # a number of thousands of digits
        raise Refusal(400, f"the body is not JSON that can be read: {error}") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise Refusal(400, f"the key {shown(twice)} is there twice")
    return found


def _no_number(text: str) -> Any:
    raise Refusal(400, f"{text} is not a number in JSON")


async def until_gone(request: Request) -> None:
    """Return when the client has closed the connection; to be called when the body has been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
