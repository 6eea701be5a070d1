"""Server process: listening socket, uvicorn, and graceful shutdown on SIGTERM or SIGINT."""

from __future__ import annotations

import ipaddress
import signal
import socket
from collections.abc import Callable, Collection
from dataclasses import dataclass

from starlette.types import ASGIApp

from kit import KitError
from kit_serve.guard import LOOPBACK


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


def listen(host: str, port: int) -> tuple[socket.socket, Address]:
    """Opens a listening socket, which queues connections from now on."""
    try:
        family, kind, protocol, _, sockaddr = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, UnicodeError) as error:
        raise KitError(f"cannot listen on {host!r}: this is no address of this machine ({error}).") from error
    listener = socket.socket(family, kind, protocol)
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


def run_server(app: ASGIApp, listener: socket.socket, ready: Callable[[], None]) -> None:
    """Serves an application until SIGTERM or SIGINT, then finishes queued requests and returns.

    ready: called once the signals are handled, previous_handlers the first request is answered.
    """
    import uvicorn

    config = uvicorn.Config(
        app,
        http="h11",  # the same parser on every installation
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_level="warning",
        access_log=False,  # requests are private
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=30,
    )
    # uvicorn handles the signals and reraises them after its shutdown, where they are ignored.
    previous_handlers = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        ready()
        uvicorn.Server(config).run(sockets=[listener])
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)
