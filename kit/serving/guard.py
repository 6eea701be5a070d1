"""What stands before every request: where it comes from, how many there are, and what a browser may do with the answer.

A server on the loopback address is still within reach of every page that its user's browser shows. A page elsewhere
may point a name of its own at 127.0.0.1 (DNS rebinding), so the name in Host is checked; it may also send a request
without being able to read the answer, so Origin is checked where a browser gives it. No other origin is ever allowed.
"""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kit.serving.refusal import Refusal, busy
from kit.serving.replies import refused

LOOPBACK = ("localhost", "127.0.0.1", "::1")
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Sent with every answer; the page has a content security policy besides."""


class Guard:
    """Refuses what does not belong here, before any of it is read."""

    def __init__(self, app: ASGIApp, names: Collection[str] | None, clients: int) -> None:
        """names: those the server may be called by; None where it may be called anything."""
        self.app = app
        self.names = None if names is None else {name.lower() for name in names}
        self.clients = clients
        self._now = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request and pass it on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        self._now += 1
        try:
            self._check(Headers(scope=scope))
        except Refusal as refusal:
            await refused(refusal)(scope, receive, safely)
        else:
            await self.app(scope, receive, safely)
        finally:
            self._now -= 1

    def _check(self, headers: Headers) -> None:
        hosts = headers.getlist("host")
        if len(hosts) != 1:
            raise Refusal(400, f"{len(hosts)} Host headers; wanted one")
        if self.names is not None and _name(hosts[0]) not in self.names:
            raise Refusal(
                421,
                f"this server is not called {hosts[0][:100]!a}; it answers to {', '.join(sorted(self.names))}. "
                "Another name can be allowed when it is started: kit serve RUN --allow-host NAME",
            )
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != hosts[0].lower():
            raise Refusal(403, f"a page of {origin[:100]!a} may not ask this server; only its own page may")
        if self._now > self.clients:
            raise busy(f"too many clients: {self.clients} are being answered; try again in a moment")


def _name(host: str) -> str:
    """The name in a Host header, without the port; brackets of an IPv6 address are taken off."""
    host = host.strip().lower()
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
