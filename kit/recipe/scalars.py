"""What an unquoted word in a recipe means: the core rules of YAML 1.2, in which `2e-5` is a number and `no` a text."""

from __future__ import annotations

import math
import re

DIGITS = 18
"""The longest whole number that is read, in digits: more is a slip of the finger, and costs time to convert."""

_WHOLE = re.compile(r"[-+]?[0-9]+\Z")
_BASED = re.compile(r"0o[0-7]+\Z|0x[0-9a-fA-F]+\Z")
_BROKEN = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)\Z|\.(nan|NaN|NAN)\Z")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None, "~": None, "": None}

Plain = str | int | float | bool | None


class ScalarError(ValueError):
    """A word that looks like a number but cannot be one."""


def resolve(text: str) -> Plain:
    """The value of an unquoted word."""
    if text in _WORDS:
        return _WORDS[text]
    if _WHOLE.match(text) or _BASED.match(text):
        if len(text.lstrip("+-0")) > DIGITS:
            raise ScalarError(f"found a whole number of {len(text)} digits, wanted one of at most {DIGITS}")
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    if _NOT_FINITE.match(text):
        raise ScalarError(f"found {text}, wanted a finite number")
    if _BROKEN.match(text):
        number = float(text)
        if not math.isfinite(number):
            raise ScalarError(f"found {text[:40]}, wanted a number that is not too large (at most 1.8e308)")
        return number
    return text


def spelled(value: Plain) -> str:
    """A value as a recipe spells it, a text in quotes, shortened where it is long."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = f"'{value}'" if isinstance(value, str) else str(value)
    text = text.replace("\n", "\\n")
    return text if len(text) <= 60 else f"{text[:57]}..."


def control_character(text: str) -> str | None:
    """The first character of a text that no recipe may hold, spelled as a code point; None where all is well."""
    found = _CONTROL.search(text)
    return f"U+{ord(found.group()):04X}" if found else None
