"""HTTP requests: size and time limits, strict JSON parsing, validation of the body, and refusals with a reason."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.requests import Request

_INVALID_CHARACTERS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters other than tab and line ends, and lone surrogates."""
_KEYS = ("text", "texts", "nbest")
_EXAMPLE = '{"text": "hello"} or {"texts": ["hello", "world"], "nbest": 3}'
"""A valid body, for the reasons of refusals."""
_DRAIN_FACTOR = 32
"""The multiple of the size limit up to which an oversized body is still read, since some clients read the response
only after they have sent the whole body."""


@dataclass(frozen=True)
class Limits:
    """The limits of a server, set by the operator; requests beyond them are refused."""

    body: int = 1 << 20
    """The most bytes of a request."""
    texts: int = 64
    """The most inputs in a request."""
    characters: int = 10_000
    """The most characters of an input."""
    nbest: int = 10
    """The most outputs of an input that may be asked for."""
    outputs: int = 10
    """The most outputs that the search gives, where more may be asked for."""
    batch: int = 32
    """The maximum batch size of the model."""
    queue: int = 1024
    """The most queued inputs; beyond that, requests are refused as busy."""
    clients: int = 256
    """The most requests that are read or answered at once, so that slow clients cannot fill the memory."""
    wait: float = 0.004
    """Seconds that the first input of a batch waits for others when the model is idle."""
    read_timeout: float = 15.0
    """Seconds a client may take to send a request."""


def text_schema(limits: Limits, description: str) -> dict[str, Any]:
    """Returns the JSON Schema of an input."""
    control = r"\u0000-\u0008\u000B\u000C\u000E-\u001F\u007F-\u009F"
    return {
        "type": "string",
        "maxLength": limits.characters,
        "pattern": f"^[^{control}]*$",
        "description": description,
    }


def body_schema(limits: Limits) -> dict[str, Any]:
    """Returns the JSON Schema of the body of `POST /predict`."""
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "text": text_schema(limits, "One text to answer."),
            "texts": {
                "type": "array",
                "maxItems": limits.texts,
                "items": text_schema(limits, "A text to answer."),
                "description": "Several; instead of text.",
            },
            "nbest": {
                "type": "integer",
                "minimum": 1,
                "maximum": limits.nbest,
                "default": 1,
                "description": f"How many answers to each; the search gives {limits.outputs} at most.",
            },
        },
        "oneOf": [{"required": ["text"]}, {"required": ["texts"]}],
    }


class Refusal(Exception):
    """Ends a request with an HTTP status and a reason; never used for the server's own errors."""

    def __init__(self, status: int, reason: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.headers = dict(headers or {})


def busy(reason: str) -> Refusal:
    """Returns a refusal for overload (503), which the client may retry after a second."""
    return Refusal(503, reason, {"Retry-After": "1"})


@dataclass(frozen=True)
class PredictRequest:
    """The validated body of `POST /predict`."""

    texts: Sequence[str]
    nbest: int


async def read_request(request: Request, limits: Limits) -> PredictRequest:
    """Reads, parses and validates a request; raises `Refusal`."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refusal(415, f"the content type is {kind or 'missing'!r}; wanted application/json, such as {_EXAMPLE}")
    try:
        async with asyncio.timeout(limits.read_timeout):
            body = await _read_body(request, limits.body)
    except TimeoutError:
        raise Refusal(408, f"the request was not complete after {limits.read_timeout:g} seconds") from None
    return validate(parse(body), limits)


async def disconnected(request: Request) -> None:
    """Returns when the client has closed the connection; called after the body has been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _read_body(request: Request, limit: int) -> bytes:
    content_length = request.headers.get("content-length", "")
    too_large = Refusal(413, f"the body is larger than {limit:,} bytes", {"Connection": "close"})
    if content_length.isdecimal() and int(content_length) > limit and "expect" in request.headers:
        raise too_large  # the client waits for a 100 Continue before it sends anything
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size <= limit:
            chunks.append(chunk)
        elif size > _DRAIN_FACTOR * limit:
            break
        else:
            chunks.clear()
    if size > limit:
        raise too_large
    return b"".join(chunks)


def parse(body: bytes) -> Any:
    """Parses JSON strictly: UTF-8, no duplicate keys, no NaN or infinity."""
    if not body:
        raise Refusal(400, f"the body is empty; wanted JSON, such as {_EXAMPLE}")
    try:
        return json.loads(body.decode("utf-8"), object_pairs_hook=_unique_keys, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise Refusal(400, f"the body is not UTF-8: byte {error.start} is {body[error.start]:#04x}") from None
    except json.JSONDecodeError as error:
        raise Refusal(
            400, f"the body is not JSON: {error.msg}, line {error.lineno}, column {error.colno}; wanted {_EXAMPLE}"
        ) from None
    except RecursionError:
        raise Refusal(400, "the body is nested too deeply") from None
    except ValueError as error:  # such as a number with thousands of digits
        raise Refusal(400, f"the body is not JSON that can be read: {error}") from None


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise Refusal(400, f"the key {_printable(twice)} is there twice")
    return found


def _no_constant(text: str) -> Any:
    raise Refusal(400, f"{text} is not a number in JSON")


def validate(data: Any, limits: Limits) -> PredictRequest:
    """Checks parsed JSON against the schema and the limits; raises `Refusal`."""
    if not isinstance(data, dict):
        raise Refusal(422, f"the body is {_type_name(data)}; wanted an object, such as {_EXAMPLE}")
    for key in data:
        if key not in _KEYS:
            near = get_close_matches(key, _KEYS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "known are 'text', 'texts' and 'nbest'"
            raise Refusal(422, f"unknown key {_printable(key)}; {hint}")
    if ("text" in data) == ("texts" in data):
        found = "both 'text' and 'texts' are" if "text" in data else "neither 'text' nor 'texts' is"
        raise Refusal(422, f"{found} there; wanted one of them, such as {_EXAMPLE}")
    texts = data["texts"] if "texts" in data else [data["text"]]
    if not isinstance(texts, list):
        raise Refusal(422, f"'texts' is {_type_name(texts)}; wanted a list of strings")
    if len(texts) > limits.texts:
        raise Refusal(422, f"{len(texts):,} texts are too many; at most {limits.texts} at once")
    for index, text in enumerate(texts):
        _validate_text(text, f"texts[{index}]" if "texts" in data else "text", limits)
    nbest = data.get("nbest", 1)
    if type(nbest) is not int or not 1 <= nbest <= limits.nbest:
        found = _type_name(nbest) if type(nbest) is not int else f"{nbest:,}" if abs(nbest) < 10**12 else "too large"
        raise Refusal(422, f"'nbest' is {found}; wanted a whole number from 1 to {limits.nbest}")
    return PredictRequest(texts, min(nbest, limits.outputs))


def _validate_text(text: object, name: str, limits: Limits) -> None:
    if not isinstance(text, str):
        raise Refusal(422, f"{name!r} is {_type_name(text)}; wanted a string")
    if len(text) > limits.characters:
        raise Refusal(422, f"{name!r} is {len(text):,} characters long; at most {limits.characters:,} are read")
    invalid = _INVALID_CHARACTERS.search(text)
    if invalid is not None:
        code = ord(invalid.group())
        what = "half a character (a lone surrogate)" if code >= 0xD800 else "the control character"
        raise Refusal(422, f"{name!r} holds {what} U+{code:04X} at character {invalid.start() + 1}; take it out")


def _printable(key: str) -> str:
    """Returns a key for a message: printable and truncated."""
    return ascii(key if len(key) <= 40 else key[:40] + "...")


def _type_name(value: object) -> str:
    names = {type(None): "null", bool: "true or false", int: "a number", float: "a number", str: "a string"}
    return names.get(type(value), "a list" if isinstance(value, list) else "an object")
