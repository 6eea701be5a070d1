"""Connections of the server: the idlest are closed for new ones, so that file descriptors stay in reserve."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import select
import socket
import time
from collections.abc import Collection
from heapq import nsmallest
from typing import Any, NoReturn

from uvicorn.protocols.http.h11_impl import H11Protocol

log = logging.getLogger("kit_serve")
RESERVE = 64
"""File descriptors that connections leave free, for what the process opens while it answers."""
MAX_DESCRIPTORS = 4096
"""The file descriptors that are used at most, whatever the process may have: idle connections cost memory, too."""
CLOSED_AT_ONCE = 16
"""The most connections that are closed to make room."""
SHORTEST_IDLE = 1.0
"""Seconds a connection may be without a request before it can be closed: the request may be on its way."""
_RETRY = 0.9
"""Seconds without an accept where no connection is idle; asyncio calls again after one second."""
_EXHAUSTED = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))


class Connection(H11Protocol):
    """HTTP connection that knows since when it has no request."""

    idle_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begins to wait for the first request."""
        super().connection_made(transport)
        self.idle_since = time.monotonic()

    def on_response_complete(self) -> None:
        """Begins to wait for the next request. Bytes that are no whole request do not count as one."""
        self.idle_since = time.monotonic()
        super().on_response_complete()

    @property
    def idle(self) -> bool:
        """Whether no request is being read or answered."""
        return (self.cycle is None or self.cycle.response_complete) and not self.transport.is_closing()


class Listener(socket.socket):
    """Listening socket that accepts a connection only where the reserve of file descriptors stays untouched.

    Where it would not, the idlest connections are closed first; without any, clients wait in the queue of the socket.
    """

    connections: Collection[Connection] = ()
    """The open connections."""
    _paused_until = 0.0
    _warned = False

    def accept(self) -> tuple[socket.socket, Any]:
        """Accepts a connection; asyncio calls this until there is none (`BlockingIOError`)."""
        if time.monotonic() < self._paused_until:
            raise BlockingIOError
        try:
            if self.spare > 0:
                return super().accept()
        except OSError as error:
            if error.errno not in _EXHAUSTED:
                raise
        self._make_room()

    @property
    def limit(self) -> int:
        """The file descriptors that may be used: the limit of open files, up to `MAX_DESCRIPTORS`."""
        limit = os.sysconf("SC_OPEN_MAX")
        return min(limit, MAX_DESCRIPTORS) if limit > 0 else MAX_DESCRIPTORS

    @property
    def spare(self) -> int:
        """The number of connections that can be opened; the operating system gives the lowest free descriptor."""
        try:
            lowest = os.dup(self.fileno())
        except OSError as error:
            if error.errno not in _EXHAUSTED:
                raise
            return 0
        os.close(lowest)
        return self.limit - RESERVE - lowest

    def _make_room(self) -> NoReturn:
        """Closes the idlest connections, which takes until the next step of the event loop."""
        clients = select.poll()
        clients.register(self, select.POLLIN)
        if not clients.poll(0):
            raise BlockingIOError
        if not self._warned:
            self._warned = True
            log.warning(
                "as many connections are open as %d open files leave room for: those that were idle longest are "
                "closed for new ones. This is said once; a higher limit, up to %d: ulimit -n %d",
                self.limit,
                MAX_DESCRIPTORS,
                MAX_DESCRIPTORS,
            )
        before = time.monotonic() - SHORTEST_IDLE
        closable = (each for each in self.connections if each.idle and each.idle_since < before)
        if idlest := nsmallest(CLOSED_AT_ONCE, closable, key=lambda each: each.idle_since):
            for connection in idlest:
                connection.transport.close()
            raise BlockingIOError
        self._paused_until = time.monotonic() + _RETRY
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))  # asyncio pauses for a second


def on_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Handles errors of an event loop: a pause of a `Listener` is none, others are logged."""
    error = context.get("exception")
    if not isinstance(error, OSError) or error.errno not in _EXHAUSTED:
        loop.default_exception_handler(context)
