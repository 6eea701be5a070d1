"""A request that is not answered, and the reason, in words for the person who sent it."""

from __future__ import annotations

from collections.abc import Mapping


class Refusal(Exception):
    """Ends a request with a status and a reason; never the server's own mistake."""

    def __init__(self, status: int, reason: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.headers = dict(headers or {})


def busy(reason: str) -> Refusal:
    """There is too much to do right now; the client may come back."""
    return Refusal(503, reason, {"Retry-After": "1"})
