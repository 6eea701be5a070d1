"""A page elsewhere, shown in the browser of whoever runs the server, gets nothing from it."""

from __future__ import annotations

import asyncio
import json
import string
from collections.abc import Iterator

import pytest
from processes.servers import Echo, Server, serving

from kit.errors import KitError
from kit_serve.guard import Guard
from kit_serve.server import Address, listen


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(Echo(), names=["localhost", "127.0.0.1", "::1", "model.example"]) as started:
        yield started


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9000", "127.0.0.1:1", "[::1]:8000", "model.example"])
def test_a_name_of_its_own_is_answered(server, host):
    assert server.ask({"text": "ab"}, host=host)[0] == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example:8000", "localhost.evil.example", "", "0.0.0.0"]
)
@pytest.mark.parametrize("path", ["/", "/health", "/about", "/predict"])
def test_another_name_is_refused_before_anything_is_told(server, host, path):
    status, _, answer = server.send("POST" if path == "/predict" else "GET", path, host=host)
    assert status == 421 and "echo/1" not in answer.decode()
    assert "--allow-host" in json.loads(answer)["error"]


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost:1", "https://127.0.0.1.evil.example"]
)
def test_another_origin_is_refused(server, origin):
    status, answer = server.ask({"text": "ab"}, host="localhost:8000", origin=origin)
    assert status == 403 and "only its own page may" in answer["error"]


def status(**headers: str) -> int:
    """What the guard answers to headers, with 204 for what it lets through; anything it raises is raised here."""
    statuses: list[int] = []

    async def inner(scope, receive, send):
        await send({"type": "http.response.start", "status": 204, "headers": []})

    async def send(message):
        statuses.append(message.get("status", 0))

    async def receive():
        raise AssertionError("the guard reads no body")

    fields = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": fields}
    asyncio.run(Guard(inner, ["localhost", "::1"], 10)(scope, receive, send))
    return statuses[0]


@pytest.mark.parametrize("own", ["localhost", "[::1]", "localhost:80", "[::1]:80"])
def test_nothing_that_is_written_round_its_name_makes_it_another_name_of_its_own(own):
    assert status(host=own) == status(host=f" {own.upper()} ") == 204
    for character in map(chr, range(1, 256)):
        for forged in (f"{own}{character}evil.example", f"evil.example{character}{own}", f"{own[:-1]}{character}x"):
            assert status(host=forged) in (400, 421), forged
    for forged in ("[::1", "::1]", "[localhost]", "[::1]evil.example", "[::1]:80@evil.example", "localhost:80:80"):
        assert status(host=forged) == 400, forged


@pytest.mark.parametrize(
    "origin", ["http://[", "http://[::1", "http://]", "//[", "", "http://localhost:80/", "file://"]
)
def test_an_origin_that_is_no_address_is_refused_and_breaks_nothing(server, origin):
    answered, answer = server.ask({"text": "ab"}, host="localhost:80", origin=origin)
    assert answered == 403 and "only its own page may" in answer["error"]


def test_no_origin_but_its_own_is_let_in():
    for character in string.printable:
        for origin in (f"http://{character}", f"http://localhost{character}", f"{character}http://localhost"):
            assert status(host="localhost", origin=origin) == 403, origin
    assert status(host="localhost", origin="http://localhost") == 204
    assert status(host="localhost", origin="https://localhost") == 204, "a proxy may encrypt"


def test_its_own_page_may_ask(server):
    assert server.ask({"text": "ab"}, host="localhost:8000", origin="http://localhost:8000")[0] == 200


def test_two_names_are_no_name(server):
    with server.raw() as line:
        line.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n")
        assert line.recv(1000).startswith(b"HTTP/1.1 400 ")


def test_every_answer_is_told_to_stay_where_it_is(server):
    for path in ("/", "/health", "/nothing"):
        _, headers, _ = server.send("GET", path)
        assert headers["x-content-type-options"] == "nosniff" and headers["x-frame-options"] == "DENY"
        assert headers["cross-origin-resource-policy"] == "same-origin" and headers["cache-control"] == "no-store"
        assert not any(name.startswith("access-control") for name in headers)


def test_the_page_may_run_what_is_written_in_it_and_nothing_else(server):
    status, headers, body = server.send("GET", "/")
    policy = dict(rule.split(" ", 1) for rule in headers["content-security-policy"].split("; "))
    assert status == 200 and headers["content-type"].startswith("text/html")
    assert policy["default-src"] == "'none'" and policy["connect-src"] == "'self'"
    assert policy["script-src"].startswith("'sha256-") and "unsafe" not in headers["content-security-policy"]
    page = body.decode()
    assert "innerHTML" not in page and "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in page


def test_health_and_about_say_what_runs(server):
    server.ask({"text": "ab"})
    health = server.get("/health")
    assert (health["status"], health["run"], health["task"], health["parameters"]) == (
        "ok",
        "echo/1",
        "seq2seq",
        1234,
    )
    assert health["uptime"] > 0 and health["queue"]["waiting"] == 0 and health["queue"]["answered"] >= 1
    about = server.get("/about")
    assert about["limits"]["characters"] == 10_000 and about["description"] == "Turns texts round."
    assert server.send("HEAD", "/health")[0] == 200
    assert "/predict" in server.get("/openapi.json")["paths"]


def test_where_it_listens_decides_what_it_may_be_called():
    here = Address("127.0.0.1", 80)
    assert here.loopback and here.names(()) == {"localhost", "127.0.0.1", "::1"}
    assert here.names(["model.example"]) == {"localhost", "127.0.0.1", "::1", "model.example"}
    everywhere = Address("0.0.0.0", 80)
    assert not everywhere.loopback and everywhere.names(()) is None and everywhere.url == "http://127.0.0.1:80"
    assert "model.example" in (everywhere.names(["model.example"]) or ())
    assert Address("::1", 80).url == "http://[::1]:80" and Address("::1", 80).loopback


def test_a_port_that_is_taken_or_a_name_that_is_none_is_explained():
    listener, address = listen("127.0.0.1", 0)
    with listener, pytest.raises(KitError, match=r"Address already in use.*--port"):
        listen("127.0.0.1", address.port)
    with pytest.raises(KitError, match="no address of this machine"):
        listen("no.such.name.invalid", 0)
