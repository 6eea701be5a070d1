"""How much a server takes at once: beyond these numbers it says no, with a reason, instead of falling over."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What a server accepts. Nobody outside chooses these; the person who starts it does."""

    body: int = 1 << 20
    """The most bytes of a request."""
    texts: int = 64
    """The most texts in a request."""
    characters: int = 10_000
    """The most characters of a text."""
    nbest: int = 10
    """The most answers to a text."""
    batch: int = 32
    """The most texts the model works on at once."""
    queue: int = 1024
    """The most texts that wait for the model; beyond that the server says that it is busy."""
    clients: int = 256
    """The most requests that are read or answered at once, so that slow clients cannot fill the memory."""
    wait: float = 0.004
    """Seconds that the first text of a batch waits for company, when the model has nothing else to do."""
    patience: float = 15.0
    """Seconds a client may take to send a request."""
