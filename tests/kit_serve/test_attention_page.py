"""An answer, and the attention behind it: in a frame that can reach nothing, for texts that are not too long."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from pages.synthetic_pages import known, made, side
from processes.servers import Echo, Process, Server, serving

from kit.errors import KitError

pytestmark = pytest.mark.xdist_group("browser")


class Drawing(Echo):
    """Shows made-up attention; some texts make it fail."""

    def __init__(self, task: str = "seq2seq") -> None:
        super().__init__(task)
        self.drawn: list[tuple[str, str | None]] = []

    def render(self, text: str, target: str | None) -> tuple[str, str]:
        self.drawn.append((text, target))
        if text == "wrong":
            raise KitError("this text is too long for the model")
        if text == "crash":
            raise ZeroDivisionError("a secret of the server")
        page = made(side(known(4)))
        return page.html, page.policy


@pytest.fixture
def drawing() -> Drawing:
    return Drawing()


@pytest.fixture
def server(drawing: Drawing) -> Iterator[Server]:
    with serving(drawing) as found:
        yield found


def ask(server: Server, query: str, **headers: str) -> tuple[int, dict[str, str], str]:
    status, found, body = server.send("GET", f"/attention?{query}", **headers)
    return status, found, body.decode()


def test_the_page_of_a_text_can_reach_nothing(server, drawing):
    status, headers, body = ask(server, f"text={quote('a & b ☃')}&target=x")
    assert status == 200 and drawing.drawn == [("a & b ☃", "x")]
    assert headers["content-type"].startswith("text/html") and body.startswith("<!doctype html>")
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "connect-src" not in policy and "sandbox allow-scripts" in policy
    assert "frame-ancestors 'self'" in policy and headers["x-frame-options"] == "SAMEORIGIN"


@pytest.mark.parametrize(
    ("query", "status", "reason"),
    [
        ("", 422, "there is no text"),
        ("text=a&text=b", 422, "'text' is not wanted here, or is there twice"),
        ("text=a&budget=9", 422, "'budget' is not wanted here"),
        (f"text={'a' * 1001}", 422, "at most 1,000"),
        ("text=%00", 422, "control character"),
        ("text=wrong", 422, "too long for the model"),
        ("text=crash", 500, "the reason is in the server's log"),
    ],
    ids=["nothing", "twice", "unknown", "long", "control", "refused", "failed"],
)
def test_what_cannot_be_shown_is_told(server, query, status, reason):
    found, headers, body = ask(server, query)
    assert found == status and reason in body and "secret" not in body
    assert headers["content-type"].startswith("text/plain"), "a person reads it in the frame"


def test_a_page_elsewhere_may_not_make_the_server_work(server, drawing):
    status, _, _ = ask(server, "text=a", **{"sec_fetch_site": "cross-site"})
    assert status == 403 and drawing.drawn == []


def test_without_a_renderer_the_plugin_that_is_missing_is_named():
    with serving(Echo()) as server:
        status, _, body = ask(server, "text=a")
        assert status == 404 and "kit_inspect" in body and server.get("/about")["attention"] is False


@pytest.mark.parametrize(
    ("task", "asked", "wanted"),
    [
        ("seq2seq", "abc", ("abc", "cba")),
        ("generate", "abc", ("abccba", None)),
        ("fill_mask", "a ___ c", ("a cat c", None)),
        ("classify", "abc", ("abc", None)),
    ],
)
def test_a_person_sees_the_answer_and_the_attention(browser, task, asked, wanted):
    drawing = Drawing(task)
    with serving(drawing) as server:
        page = browser.open(server.url)
        page.wait("document.title.includes('·')")
        page.type(asked)
        page.press("Enter")
        page.wait("document.querySelector('[data-result]:not([hidden])')")
        assert not page.visible("[data-region=attention]")
        page.click("[data-look]")
        page.wait("document.querySelector('iframe')")
        assert page.evaluate("document.querySelector('iframe').sandbox.value") == "allow-scripts allow-downloads"
        page.wait(FETCHED)
        assert drawing.drawn == [wanted]
        assert page.evaluate("document.querySelector('[data-look]').getAttribute('aria-expanded')") == "true"
        page.click("[data-look]")
        assert not page.visible("[data-region=attention]")
        assert page.problems == []
        page.close()


FETCHED = "performance.getEntriesByType('resource').some((it) => it.name.includes('attention?'))"


def test_the_frame_draws(browser, server):
    page = browser.open(f"{server.url}attention?text=abc")
    page.wait("document.documentElement.dataset.ready === 'true'")
    assert page.evaluate("origin") == "null", "it is from nowhere, and may ask this server nothing"
    assert page.problems == [] and len(page.requests) == 1
    page.close()


def test_a_real_run_shows_its_attention(run: Path):
    with Process(run) as process:
        assert process.server.get("/about")["attention"] is True
        status, _, body = ask(process.server, "text=1%202%203&target=1%202%203")
    assert status == 200
    features = json.loads(re.search(r'id="facts">(.*?)</script>', body, re.DOTALL)[1])
    assert features["text"] == "1 2 3" and features["rows"]["target"]["tokens"][1:] == ["1", "2", "3"]
    assert features["sides"][0]["texts"] > 1 and features["sides"][0]["maps"][0]["heads"][0]["peak"] > 0
