"""Drives Debian's chromium over its debugging pipe: no driver, no port and no package are needed.

    def test_a_page(browser):                       # from browser import browser
        page = browser.open("http://127.0.0.1:8000/")
        page.type("hello")
        page.press("Enter")
        page.wait("document.querySelector('article') !== null")
        assert page.problems == []

Names are never looked up, so that a page that reaches for the network fails; addresses of this machine answer.
Nothing is installed here (`make browser` does that): where no chromium is found, tests are skipped with the
reason, or fail where KIT_NEED_BROWSER is set.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pages.browser_page import PATIENCE, BrowserError, Page

NAMES = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")
_FLAGS = (
    "--headless",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-dev-shm-usage",  # containers have little of it
    "--disable-extensions",
    "--disable-gpu",
    "--disable-sync",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--metrics-recording-only",
    "--mute-audio",
    "--password-store=basic",
)


def executable() -> str | None:
    """The browser, where there is one; KIT_BROWSER names another."""
    named = os.environ.get("KIT_BROWSER")
    return named or next((found for name in NAMES if (found := shutil.which(name))), None)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all tests that ask for it; import this fixture where it is used."""
    found = executable()
    if found is None:
        reason = f"no browser: none of {', '.join(NAMES)} is installed; `make browser` installs chromium"
        if os.environ.get("KIT_NEED_BROWSER"):
            pytest.fail(reason)
        warnings.warn(f"pages are not tested: {reason}", stacklevel=1)
        pytest.skip(reason)
    with_it = Browser(found)
    yield with_it
    with_it.close()


class Browser:
    """A running browser with a profile of its own, which ends with it."""

    def __init__(self, path: str) -> None:
        self._profile = tempfile.mkdtemp(prefix="browser-")
        read_by_it, write_to_it = os.pipe()
        self._read, write_by_it = os.pipe()
        self._write = write_to_it
        flags = [*_FLAGS, f"--user-data-dir={self._profile}"]
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            flags.append("--no-sandbox")  # which root cannot have
        # The browser reads commands from 3 and writes to 4; the shell puts them there, above whatever they are now.
        place = f'exec 13<&{read_by_it} 14>&{write_by_it}; exec 3<&13 4>&14 13<&- 14>&-; exec "$@"'
        self._log = Path(self._profile, "log")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                ["bash", "-c", place, "browser", path, *flags, "about:blank"],
                pass_fds=(read_by_it, write_by_it),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        os.close(read_by_it)
        os.close(write_by_it)
        self._left = b""
        self._last = 0
        self._pages: dict[str, Page] = {}

    def open(self, url: str, *, width: int = 1000, height: int = 900, dark: bool = False) -> Page:
        """A page in a fresh context (nothing is remembered from other pages), when it has loaded."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session, context)
        self._pages[session] = page
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        page.resize(width, height)
        page.prefer(dark=dark)
        page.goto(url)
        return page

    def call(self, method: str, session: str = "", **parameters: Any) -> dict[str, Any]:
        """Send one command of the DevTools protocol and wait for its answer; what happens meanwhile is noted."""
        self._last += 1
        number = self._last
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        try:
            os.write(self._write, json.dumps(message).encode() + b"\0")
        except BrokenPipeError:
            raise BrowserError(f"the browser ended: {self._said()}") from None
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self.receive(deadline, method)
            if answer.get("id") == number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result

    def close(self) -> None:
        """End the browser and everything it started, and remove its profile."""
        os.close(self._write)  # at which it ends by itself
        os.close(self._read)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        shutil.rmtree(self._profile, ignore_errors=True)

    def forget(self, session: str) -> None:
        """A page was closed."""
        self._pages.pop(session, None)

    def receive(self, deadline: float, why: str) -> dict[str, Any]:
        """The next message; those about a page are noted there."""
        while b"\0" not in self._left:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise BrowserError(f"no answer to {why} within {PATIENCE:g} s: {self._said()}")
            piece = os.read(self._read, 1 << 20)
            if not piece:
                raise BrowserError(f"the browser ended during {why}: {self._said()}")
            self._left += piece
        line, _, self._left = self._left.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        page = self._pages.get(message.get("sessionId", ""))
        if page is not None and "method" in message:
            page.note(message["method"], message["params"])
        return message

    def _said(self) -> str:
        return self._log.read_text(errors="replace")[-2000:]
