"""Server process: listening socket, uvicorn, and graceful shutdown on SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import ipaddress
import signal
import socket
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import cast

import uvicorn
from starlette.types import ASGIApp

from kit import KitError
from kit_serve.connections import RESERVE, Connection, Listener, on_loop_error
from kit_serve.guard import LOOPBACK

FEWEST_CONNECTIONS = 16
"""The connections that the limit of open files has to leave room for."""


@dataclass(frozen=True)
class Address:
    """The address of a listening socket."""

    host: str
    port: int

    @property
    def loopback(self) -> bool:
        """Whether the address can only be reached from this machine."""
        return ipaddress.ip_address(self.host.partition("%")[0]).is_loopback

    @property
    def url(self) -> str:
        """The URL for a browser on this machine."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    def names(self, allowed: Collection[str]) -> set[str] | None:
        """Returns the accepted Host names; None (any) for a public address without allowed names."""
        if not self.loopback and not allowed:
            return None
        return {*LOOPBACK, self.host, *allowed}


def listen(host: str, port: int) -> tuple[Listener, Address]:
    """Opens a listening socket, which queues connections from now on."""
    try:
        family, kind, protocol, _, sockaddr = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, UnicodeError) as error:
        raise KitError(f"cannot listen on {host!r}: this is no address of this machine ({error}).") from error
    listener = Listener(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(sockaddr)
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise KitError(
            f"cannot listen on {host}, port {port}: {error.strerror or error}. "
            "Choose another port with --port; --port 0 takes a free one."
        ) from error
    bound = listener.getsockname()
    return listener, Address(bound[0], bound[1])


class _Server(uvicorn.Server):
    """Server whose event loop does not log the pauses of its listener."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(on_loop_error)
        await super().startup(sockets)


def run_server(app: ASGIApp, listener: Listener, ready: Callable[[], None]) -> None:
    """Serves an application until SIGTERM or SIGINT, then finishes queued requests and returns.

    ready: called once the signals are handled, before the first request is answered.
    """
    if listener.spare < FEWEST_CONNECTIONS:
        limit = listener.limit
        raise KitError(
            f"this process may open {limit} files and connections, and {limit - RESERVE - listener.spare} are open; "
            f"the server needs {RESERVE + FEWEST_CONNECTIONS} more. Raise the limit before starting it: ulimit -n 1024"
        )
    config = uvicorn.Config(
        app,
        http=Connection,  # of h11: the same parser on every installation
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_level="warning",
        access_log=False,  # requests are private
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=30,
    )
    server = _Server(config)
    listener.connections = cast("set[Connection]", server.server_state.connections)
    # uvicorn handles the signals and reraises them after its shutdown, where they are ignored.
    previous_handlers = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        ready()
        server.run(sockets=[listener])
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)
