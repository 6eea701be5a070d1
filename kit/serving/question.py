"""What a request asks, checked: a wrong type, an unknown key or a character that is none is refused with the reason."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from kit.serving.limits import Limits
from kit.serving.refusal import Refusal

_UNWANTED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters other than tab and the ends of lines, and halves of characters that are none by themselves."""
_KEYS = ("text", "texts", "nbest")
EXAMPLE = '{"text": "hello"} or {"texts": ["hello", "world"], "nbest": 3}'
"""What to send, for the reasons of refusals."""


@dataclass(frozen=True)
class Question:
    """What a request asks."""

    texts: Sequence[str]
    nbest: int


SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "text": {"type": "string", "description": "One text to answer."},
        "texts": {"type": "array", "items": {"type": "string"}, "description": "Several; instead of text."},
        "nbest": {"type": "integer", "minimum": 1, "default": 1, "description": "How many answers to each."},
    },
    "oneOf": [{"required": ["text"]}, {"required": ["texts"]}],
}
"""The body, as JSON Schema has it."""


def check(data: Any, limits: Limits) -> Question:
    """The question in what was read."""
    if not isinstance(data, dict):
        raise Refusal(422, f"the body is {_kind(data)}; wanted an object, such as {EXAMPLE}")
    for key in data:
        if key not in _KEYS:
            near = get_close_matches(key, _KEYS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "known are 'text', 'texts' and 'nbest'"
            raise Refusal(422, f"unknown key {shown(key)}; {hint}")
    if ("text" in data) == ("texts" in data):
        found = "both 'text' and 'texts' are" if "text" in data else "neither 'text' nor 'texts' is"
        raise Refusal(422, f"{found} there; wanted one of them, such as {EXAMPLE}")
    texts = data["texts"] if "texts" in data else [data["text"]]
    if not isinstance(texts, list):
        raise Refusal(422, f"'texts' is {_kind(texts)}; wanted a list of strings")
    if len(texts) > limits.texts:
        raise Refusal(422, f"{len(texts):,} texts are too many; at most {limits.texts} at once")
    for place, text in enumerate(texts):
        _check_text(text, f"texts[{place}]" if "texts" in data else "text", limits)
    nbest = data.get("nbest", 1)
    if type(nbest) is not int or not 1 <= nbest <= limits.nbest:
        found = _kind(nbest) if type(nbest) is not int else f"{nbest:,}" if abs(nbest) < 10**12 else "too large"
        wanted = f"a whole number from 1 to {limits.nbest}" if limits.nbest > 1 else "1, which is what its search gives"
        raise Refusal(422, f"'nbest' is {found}; wanted {wanted}")
    return Question(texts, nbest)


def _check_text(text: object, name: str, limits: Limits) -> None:
    if not isinstance(text, str):
        raise Refusal(422, f"{name!r} is {_kind(text)}; wanted a string")
    if len(text) > limits.characters:
        raise Refusal(422, f"{name!r} is {len(text):,} characters long; at most {limits.characters:,} are read")
    unwanted = _UNWANTED.search(text)
    if unwanted is not None:
        code = ord(unwanted.group())
        what = "half a character (a lone surrogate)" if code >= 0xD800 else "the control character"
        raise Refusal(422, f"{name!r} holds {what} U+{code:04X} at character {unwanted.start() + 1}; take it out")


def shown(key: str) -> str:
    """A key in a message: printable, and no longer than a line."""
    return ascii(key if len(key) <= 40 else key[:40] + "...")


def _kind(value: object) -> str:
    kinds = {type(None): "null", bool: "true or false", int: "a number", float: "a number", str: "a string"}
    return kinds.get(type(value), "a list" if isinstance(value, list) else "an object")
