"""A page in a browser, used as a person would: by keyboard and mouse, and looked at."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any, Protocol

PATIENCE = 60.0
"""Seconds that anything may take on a busy machine."""
_KEYS = {"Enter": 13, "Tab": 9, "Escape": 27, "ArrowDown": 40, "ArrowUp": 38, "ArrowLeft": 37, "ArrowRight": 39}
_KEYS |= {"Space": 32, "Home": 36, "End": 35, "Backspace": 8, "Delete": 46, "PageUp": 33, "PageDown": 34}
_TEXT_OF = {"Enter": "\r", "Space": " "}
_MODIFIERS = {"Alt": 1, "Control": 2, "Meta": 4, "Shift": 8}


class BrowserError(AssertionError):
    """The browser, or a page in it, did not do what was wanted."""


class Caller(Protocol):
    """The browser, as a page needs it."""

    def call(self, method: str, session: str = "", **parameters: Any) -> dict[str, Any]: ...

    def receive(self, deadline: float, why: str) -> dict[str, Any]: ...

    def forget(self, session: str) -> None: ...


class Page:
    """One page."""

    def __init__(self, browser: Caller, session: str, context: str) -> None:
        self._browser = browser
        self._session = session
        self._context = context
        self._loaded = False
        self.problems: list[str] = []
        """Errors and warnings on the console, and exceptions nobody caught."""
        self.requests: list[str] = []
        """Every address that was asked for, but for data: and blob:."""

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the DevTools protocol to this page."""
        return self._browser.call(method, self._session, **parameters)

    def note(self, method: str, event: dict[str, Any]) -> None:
        """Keep what tests want to know of an event."""
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Network.requestWillBeSent" and not event["request"]["url"].startswith(("data:", "blob:")):
            self.requests.append(event["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            details = event["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and event["type"] in ("error", "warning", "assert"):
            said = (str(part.get("value", part.get("description", ""))) for part in event["args"])
            self.problems.append(" ".join(said))
        elif method == "Log.entryAdded" and event["entry"]["level"] in ("error", "warning"):
            self.problems.append(f"{event['entry']['text']} {event['entry'].get('url', '')}".strip())

    def goto(self, url: str) -> None:
        """Open an address and wait until it has loaded and was shown."""
        self._loaded = False
        failed = self.call("Page.navigate", url=url).get("errorText")
        if failed:
            raise BrowserError(f"{url}: {failed}")
        deadline = time.monotonic() + PATIENCE
        while not self._loaded:
            self._browser.receive(deadline, f"loading {url}")
        # The first frame gives the focus to what wants it; before that, keys go nowhere.
        self.evaluate("new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(() => go(true))))")

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page; a promise is waited for."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description") or details["text"])
        return result["result"].get("value")

    def wait(self, expression: str, seconds: float = PATIENCE) -> None:
        """Wait until an expression is true, as JavaScript has it: an element is."""
        deadline = time.monotonic() + seconds
        while not self.evaluate(f"Boolean({expression})"):
            if time.monotonic() > deadline:
                raise BrowserError(f"not true after {seconds:g} s: {expression}; console: {self.problems}")
            time.sleep(0.02)

    def text(self, selector: str) -> str:
        """What a person reads in an element; the first, where there are several."""
        return str(self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText"))

    def texts(self, selector: str) -> list[str]:
        """The same for each such element."""
        found = f"[...document.querySelectorAll({json.dumps(selector)})].map((it) => it.innerText)"
        return list(self.evaluate(found))

    def visible(self, selector: str) -> bool:
        """Whether there is such an element, and it is shown."""
        return bool(self.evaluate(f"document.querySelector({json.dumps(selector)})?.checkVisibility() ?? false"))

    def type(self, text: str) -> None:
        """Put text in where the focus is, as an input method does; wait until it is where text can be."""
        self.wait("document.activeElement.matches('input, textarea, [contenteditable]')")
        self.call("Input.insertText", text=text)

    def press(self, keys: str) -> None:
        """Press a key, with others held down: `Tab`, `Shift+Enter`, `Control+a`."""
        *held, key = keys.split("+") if keys != "+" else ["+"]
        modifiers = sum(_MODIFIERS[name] for name in held)
        letter = key if len(key) == 1 else _TEXT_OF.get(key, "")
        code = _KEYS.get(key, ord(key.upper()) if len(key) == 1 else 0)
        named = " " if key == "Space" else key
        event = {"key": named, "code": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        written = letter if not modifiers & ~_MODIFIERS["Shift"] else ""
        extra: dict[str, Any] = {"text": written} if written else {}
        if keys == "Control+a":
            extra = {"commands": ["selectAll"]}
        self.call("Input.dispatchKeyEvent", type="keyDown" if written else "rawKeyDown", **event, **extra)
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def click(self, selector: str) -> None:
        """Click in the middle of an element, which is scrolled to first."""
        found = json.dumps(selector)
        x, y = self.evaluate(
            f"(() => {{ const it = document.querySelector({found}); it.scrollIntoView({{block: 'center'}}); "
            "const box = it.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def hover(self, selector: str) -> None:
        """Move the mouse over an element."""
        x, y = self.evaluate(
            f"(() => {{ const box = document.querySelector({json.dumps(selector)}).getBoundingClientRect(); "
            "return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def focused(self) -> str:
        """The element that has the focus: its id, else its text."""
        return str(self.evaluate("document.activeElement.id || document.activeElement.innerText || ''"))

    def prefer(self, *, dark: bool) -> None:
        """The theme that the person has chosen for everything."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.call("Emulation.setEmulatedMedia", features=[scheme, still])

    def resize(self, width: int, height: int) -> None:
        """The size of the window; a phone is 390 by 844."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def screenshot(self, path: Path) -> Path:
        """A picture of the whole page."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))
        return path

    def close(self) -> None:
        """Close it and forget what it kept."""
        self._browser.call("Target.disposeBrowserContext", browserContextId=self._context)
        self._browser.forget(self._session)
