"""Starting and stopping: the socket, the signals, and what is printed about them."""

from __future__ import annotations

import ipaddress
import signal
import socket
from collections.abc import Callable, Collection
from dataclasses import dataclass

from kit.errors import KitError
from kit.serving.about import About
from kit.serving.batching import Predicts
from kit.serving.guard import LOOPBACK
from kit.serving.limits import Limits


@dataclass(frozen=True)
class Address:
    """Where a server listens."""

    host: str
    port: int

    @property
    def loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return ipaddress.ip_address(self.host.partition("%")[0]).is_loopback

    @property
    def url(self) -> str:
        """What to type into a browser on this machine."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    def names(self, allowed: Collection[str]) -> set[str] | None:
        """What a request may call the server; None, for anything, where it is open to a network and nobody said."""
        if not self.loopback and not allowed:
            return None
        return {*LOOPBACK, self.host, *allowed}


def listen(host: str, port: int) -> tuple[socket.socket, Address]:
    """A socket that listens, so that whoever connects from now on is answered."""
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, UnicodeError) as error:
        raise KitError(f"cannot listen on {host!r}: this is no address of this machine ({error}).") from error
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(where)
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise KitError(
            f"cannot listen on {host}, port {port}: {error.strerror or error}. "
            "Choose another port with --port; --port 0 takes a free one."
        ) from error
    bound = listener.getsockname()
    return listener, Address(bound[0], bound[1])


def serve(
    predictor: Predicts,
    about: About,
    limits: Limits,
    listener: socket.socket,
    names: Collection[str] | None,
    ready: Callable[[], None],
) -> None:
    """Answer until a SIGTERM or Ctrl-C; then take no more, answer what is queued, and return."""
    import uvicorn

    from kit.serving.application import application

    config = uvicorn.Config(
        application(predictor, about, limits, names),
        http="h11",  # one parser wherever it runs: which one would else depend on what is installed
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_level="warning",
        access_log=False,  # what people ask is theirs
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=30,
    )
    # The server takes the signals over, and raises them again when it has stopped; by then there is nothing left to do.
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        ready()
        uvicorn.Server(config).run(sockets=[listener])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
