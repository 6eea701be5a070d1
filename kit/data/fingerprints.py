"""Hashes that say whether two things are the same content."""

from __future__ import annotations

import hashlib
import json


def digest_of(facts: object) -> str:
    """SHA-256, in hexadecimal, of anything that JSON can hold; the order of keys does not matter."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
