"""What attention did with a text that was answered: a page of its own, made when somebody asks to see it."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from fastapi import FastAPI, Request, Response

from kit.errors import KitError
from kit.serving.limits import Limits
from kit.serving.question import check
from kit.serving.refusal import Refusal, busy
from kit.serving.searching import Searching

if TYPE_CHECKING:
    from kit.contracts.probe import Probe
    from kit.inspecting.inspector import Inspector
    from kit.inspecting.page.gathering import Measured
    from kit.inspecting.page.writing import Page

log = logging.getLogger("kit.serving")
CHARACTERS = 1000
"""The most characters of a text that is shown: it is part of an address."""
WAITING = 8
"""How many may wait for a page while another is made."""
TEXTS = 32
"""How many held-out texts heads are measured on."""
_ADDRESS = {"X-Frame-Options": "SAMEORIGIN"}


@runtime_checkable
class Draws(Protocol):
    """What can show its attention, beside answering."""

    def draw(self, text: str, target: str | None) -> Page:
        """The page of one text; target: what is written, if anything is."""


@dataclass(frozen=True)
class Showing(Searching):
    """Answers, and shows the attention behind an answer."""

    def draw(self, text: str, target: str | None) -> Page:
        """The page of one text; heads are measured when the first is asked for."""
        from kit.inspecting.page.gathering import scene
        from kit.inspecting.page.writing import page

        given = (text, target) if target is not None and self._inspector.reader.writes else text
        return page(scene(self.predictor.run.run.label, self._inspector, given, self._probes, self._known))

    @cached_property
    def _inspector(self) -> Inspector:
        from kit.inspecting.inspector import inspect

        return inspect(self.predictor.run)

    @cached_property
    def _probes(self) -> list[Probe]:
        from kit.inspecting.page.gathering import installed

        return installed(self.predictor.run.kit.registry)

    @cached_property
    def _known(self) -> Measured:
        from kit.inspecting.page.gathering import measured

        return measured(self._inspector, self._probes, None, TEXTS)


def add_to(app: FastAPI, predictor: object, limits: Limits) -> None:
    """Give the application the page, where there is something to draw it."""
    if not isinstance(predictor, Draws):
        return
    turn = asyncio.Lock()
    waiting = 0

    @app.get("/attention", response_class=Response)
    async def attention(request: Request) -> Response:
        """A page that shows what attention did with `text`, and with `target` where the model writes one."""
        nonlocal waiting
        try:
            text, target = _asked(request, limits)
            if waiting >= WAITING:
                raise busy("others are waiting for such a page; try again in a moment")
            waiting += 1
            try:
                async with turn:
                    made = await asyncio.to_thread(_drawn, predictor, text, target)
            finally:
                waiting -= 1
        except Refusal as refusal:  # told in words, because a person reads it in the place of the page
            headers = {**_ADDRESS, **(refusal.headers or {})}
            return Response(refusal.reason, refusal.status, headers, "text/plain; charset=utf-8")
        # In a sandbox the page is from nowhere: it cannot ask this server anything, even in a tab of its own.
        policy = f"{made.policy}; frame-ancestors 'self'; sandbox allow-scripts allow-downloads"
        return Response(made.html, headers={**_ADDRESS, "Content-Security-Policy": policy}, media_type="text/html")


def _drawn(predictor: Draws, text: str, target: str | None) -> Page:
    try:
        return predictor.draw(text, target)
    except KitError as error:
        raise Refusal(422, str(error)) from error
    except Exception as error:
        log.exception("attention could not be drawn")
        raise Refusal(500, "the attention could not be drawn; the reason is in the server's log") from error


def _asked(request: Request, limits: Limits) -> tuple[str, str | None]:
    if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        raise Refusal(403, "a page elsewhere may not ask this; only the server's own page may")
    wanted, known = request.query_params, ("text", "target")
    for key in wanted:
        if key not in known or len(wanted.getlist(key)) > 1:
            raise Refusal(422, f"{key[:40]!a} is not wanted here, or is there twice; wanted: /attention?text=hello")
    if "text" not in wanted:
        raise Refusal(422, "there is no text; wanted: /attention?text=hello")
    short = Limits(characters=min(limits.characters, CHARACTERS))
    found = [check({"text": wanted[key]}, short).texts[0] for key in known if key in wanted]
    return found[0], found[1] if len(found) > 1 else None
