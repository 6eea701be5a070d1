"""ASGI middleware: Host and Origin checks, a limit on concurrent requests, and security headers on every response.

A server on the loopback address can be reached by every web page in its user's browser. Such a page may resolve its
own name to 127.0.0.1 (DNS rebinding), so the Host header is checked; it may send a request without being able to read
the response (CSRF), so the Origin header is checked if there is one. No other origin is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kit_serve.request import Refusal, busy
from kit_serve.response import refusal_response

LOOPBACK = ("localhost", "127.0.0.1", "::1")
_HOST = re.compile(r"(?:\[(?P<address>[0-9a-f]*:[0-9a-f:.]*(?:%[^][/?#@\s]+)?)]|(?P<name>[^][/?#@:,\s]*))(?::[0-9]*)?")
"""The Host header of RFC 9110, section 7.2: an IPv6 address in brackets or a name, and a port."""
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of every response; the page also has a content security policy."""


class Guard:
    """Refuses requests by their headers, before any body is read."""

    def __init__(self, app: ASGIApp, names: Collection[str] | None, clients: int) -> None:
        """Wraps an application; names: accepted Host names, None for any; clients: the most concurrent requests."""
        self.app = app
        self.names = None if names is None else {name.lower() for name in names}
        self.clients = clients
        self._active = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Checks a request, forwards it, and adds the security headers to its response."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        self._active += 1
        try:
            self._check(Headers(scope=scope))
        except Refusal as refusal:
            await refusal_response(refusal)(scope, receive, send_safely)
        else:
            await self.app(scope, receive, send_safely)
        finally:
            self._active -= 1

    def _check(self, headers: Headers) -> None:
        hosts = headers.getlist("host")
        if len(hosts) != 1:
            raise Refusal(400, f"{len(hosts)} Host headers; wanted one")
        host = hosts[0].strip(" \t").lower()
        parts = _HOST.fullmatch(host)
        if parts is None:
            raise Refusal(400, f"the Host header is {hosts[0][:100]!a}; wanted a name and a port, as in localhost:8000")
        if self.names is not None and (parts["address"] or parts["name"]) not in self.names:
            raise Refusal(
                421,
                f"this server is not called {hosts[0][:100]!a}; it answers to {', '.join(sorted(self.names))}. "
                "Another name can be allowed when it is started: kit serve RUN --allow-host NAME",
            )
        for origin in headers.getlist("origin"):
            if origin.lower() not in (f"http://{host}", f"https://{host}"):  # compared, not parsed: it may be anything
                raise Refusal(403, f"a page of {origin[:100]!a} may not ask this server; only its own page may")
        if self._active > self.clients:
            raise busy(f"too many clients: {self.clients} are being answered; try again in a moment")
