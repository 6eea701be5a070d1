"""Every bad request is told why it is bad, and harms nobody else."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest
from processes.servers import Echo, Server, serving, until

from kit_serve.request import Limits

LIMITS = Limits(body=4096, texts=4, characters=20, nbest=3, queue=6, read_timeout=1.0)


@pytest.fixture(scope="module")
def echo() -> Echo:
    return Echo()


@pytest.fixture(scope="module")
def server(echo: Echo) -> Iterator[Server]:
    with serving(echo, LIMITS) as started:
        yield started
        assert started.ask({"text": "still here"}) == (200, _answer("still here")), "something broke the server"


def _answer(text: str) -> dict[str, object]:
    output = {"text": text[::-1], "score": 0.0, "tokens": list(text[::-1]), "finished": True}
    return {"answers": [{"input": text, "outputs": [output], "problem": ""}]}


def test_one_text_and_several_in_order(server):
    assert server.ask({"text": "abc"}) == (200, _answer("abc"))
    status, answer = server.ask({"texts": ["ab", "", "żó\n\t☃"], "nbest": 2})
    assert status == 200
    assert [each["input"] for each in answer["answers"]] == ["ab", "", "żó\n\t☃"]
    assert [[output["text"] for output in each["outputs"]] for each in answer["answers"]] == [
        ["ba", "ba!"],
        ["", "!"],
        ["☃\t\nóż", "☃\t\nóż!"],
    ]
    assert answer["answers"][2]["problem"] == "unknown: '☃'"
    assert server.ask({"texts": []}) == (200, {"answers": []})


BODIES = {
    "empty": (b"", 400, "the body is empty"),
    "not json": (b"{text: 1}", 400, "not JSON: Expecting property name enclosed in double quotes, line 1, column 2"),
    "cut": (b'{"text": "a', 400, "not JSON"),
    "after the end": (b'{"text": "a"} x', 400, "Extra data"),
    "not utf-8": (b'{"text": "\xff"}', 400, "not UTF-8: byte 10 is 0xff"),
    "overlong utf-8": (b'{"text": "\xc0\x80"}', 400, "not UTF-8"),
    "utf-16": ('{"text": "a"}'.encode("utf-16"), 400, "not UTF-8"),
    "deep": (b"[" * 2000, 400, "not JSON|nested too deeply"),
    "nan": (b'{"text": "a", "nbest": NaN}', 400, "NaN is not a number"),
    "huge number": (b'{"text": "a", "nbest": ' + b"9" * 4000 + b"}", 422, "'nbest' is too large|cannot"),
    "twice": (b'{"text": "a", "text": "b"}', 400, "the key 'text' is there twice"),
    "list": (b'["a"]', 422, "the body is a list; wanted an object"),
    "null": (b"null", 422, "the body is null"),
    "no text": (b"{}", 422, "neither 'text' nor 'texts'"),
    "both": (b'{"text": "a", "texts": ["b"]}', 422, "both 'text' and 'texts'"),
    "unknown key": (b'{"txt": "a"}', 422, "unknown key 'txt'; did you mean 'text'?"),
    "unknown search": (b'{"text": "a", "search": "beam"}', 422, "unknown key 'search'; known are"),
    "odd key": (b'{"\\u0007\\ud800": 1}', 422, "unknown key"),
    "number": (b'{"text": 3}', 422, "'text' is a number; wanted a string"),
    "bool": (b'{"text": true}', 422, "'text' is true or false"),
    "text of texts": (b'{"text": ["a"]}', 422, "'text' is a list; wanted a string"),
    "texts of text": (b'{"texts": "a"}', 422, "'texts' is a string; wanted a list"),
    "mixed": (b'{"texts": ["a", null]}', 422, "'texts[1]' is null"),
    "too many": (b'{"texts": ["a","a","a","a","a"]}', 422, "5 texts are too many; at most 4"),
    "too long": (b'{"texts": ["a", "' + b"x" * 21 + b'"]}', 422, "'texts[1]' is 21 characters long; at most 20"),
    "nul": (b'{"text": "ab\\u0000"}', 422, "'text' holds the control character U+0000 at character 3"),
    "escape": (b'{"text": "\\u001b[31m"}', 422, "control character U+001B"),
    "c1": (b'{"text": "\xc2\x85"}', 422, "control character U+0085"),
    "raw control": (b'{"text": "a\x01"}', 400, "not JSON: Invalid control character"),
    "lone surrogate": (b'{"text": "\\ud83d"}', 422, "half a character"),
    "no answers": (b'{"text": "a", "nbest": 0}', 422, "'nbest' is 0; wanted a whole number from 1 to 3"),
    "too many answers": (b'{"text": "a", "nbest": 4}', 422, "'nbest' is 4"),
    "half an answer": (b'{"text": "a", "nbest": 1.5}', 422, "'nbest' is a number; wanted a whole number"),
    "true answers": (b'{"text": "a", "nbest": true}', 422, "'nbest' is true or false"),
    "queue": (b'{"text": "wrong"}', 422, "this text is wrong"),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_bad_body_is_refused_with_the_reason(server, name):
    body, wanted, reason = BODIES[name]
    status, answer = server.ask(body)
    assert status == wanted and answer["status"] == wanted, answer
    assert any(part in answer["error"] for part in reason.split("|")), answer["error"]
    assert set(answer) == {"error", "status"} and len(answer["error"]) < 300


@pytest.mark.parametrize("content", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_only_json_is_read(server, content):
    status, answer = server.ask({"text": "a"}, content_type=content)
    assert status == 415 and "wanted application/json" in answer["error"]


def test_json_may_say_its_characters(server):
    assert server.ask({"text": "a"}, content_type="Application/JSON; charset=utf-8")[0] == 200


def test_a_body_that_says_it_is_too_large_is_refused(server):
    status, answer = server.ask(b"x" * 100_000)
    assert status == 413 and "larger than 4,096 bytes" in answer["error"]


def test_one_that_waits_for_a_word_gets_it_before_it_sends(server):
    with closing(server.raw()) as line:
        line.sendall(
            b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: 9999999999\r\nExpect: 100-continue\r\n\r\n"
        )
        assert line.recv(1000).startswith(b"HTTP/1.1 413 ")


def test_a_body_in_pieces_is_counted_while_it_comes(server):
    pieces = (b"x" * 1000 for _ in range(8))
    status, _, answer = server.send("POST", "/predict", pieces, content_type="application/json")
    assert status == 413 and "larger" in json.loads(answer)["error"]


def test_a_body_without_an_end_is_cut_off(server):
    with closing(server.raw()) as line:
        line.sendall(b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n")
        line.sendall(b"Transfer-Encoding: chunked\r\n\r\n")
        sent = 0
        try:
            while sent < 1 << 28:
                line.sendall(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
                sent += 0x10000
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert sent < 1 << 24, "a small multiple of the limit, and what the sockets hold"


def test_a_body_in_good_pieces_is_read(server):
    pieces = iter([b'{"te', b'xt": "a', b'b"}'])
    status, _, answer = server.send("POST", "/predict", pieces, content_type="application/json")
    assert (status, json.loads(answer)) == (200, _answer("ab"))


def test_a_body_that_does_not_come_is_not_waited_for(server):
    with closing(server.raw()) as line:
        line.sendall(
            b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
        )
        assert line.recv(1000).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize(
    ("method", "path", "wanted"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/../../etc/passwd", 404),
        ("GET", "/docs", 404),
        ("GET", "/predict", 405),
        ("PUT", "/predict", 405),
        ("OPTIONS", "/predict", 405),
        ("POST", "/health", 405),
        ("DELETE", "/", 405),
    ],
)
def test_what_is_not_there_is_told_in_json(server, method, path, wanted):
    status, headers, answer = server.send(method, path)
    assert status == wanted and headers["content-type"] == "application/json"
    assert json.loads(answer)["status"] == wanted
    assert not any(name.startswith("access-control") for name in headers)


@pytest.mark.parametrize(
    "junk", [b"\x00\x01\x02\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"\r\n"]
)
def test_what_is_not_http_harms_nobody(server, junk):
    with closing(server.raw()) as line:
        line.sendall(junk)
        line.shutdown(socket.SHUT_WR)
        answer = line.recv(1000)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 400 ")


def test_a_model_that_fails_keeps_its_secrets(server):
    status, answer = server.ask({"texts": ["ab", "crash"]})
    assert status == 500 and "secret" not in json.dumps(answer) and "log" in answer["error"]


def test_of_more_outputs_than_the_search_gives_all_are_given():
    echo = Echo()
    with serving(echo, Limits(nbest=5, outputs=2)) as server:
        for asked, given in ((1, 1), (2, 2), (3, 2), (5, 2)):
            status, answer = server.ask({"text": "ab", "nbest": asked})
            assert status == 200 and len(answer["answers"][0]["outputs"]) == given
        assert server.ask({"text": "ab", "nbest": 6})[0] == 422
        assert server.get("/about")["limits"]["nbest"] == 2, "the page offers what there is"
    assert max(echo.nbest) == 2, "the search is asked for no more than it gives"


def test_overload_is_said_and_passes(server, echo):
    echo.go.clear()
    try:
        lines = [server.begin("busy")]
        until(lambda: server.get("/health")["queue"]["working"] == 1)
        for waiting in range(6):
            lines.append(server.begin(f"w{waiting}"))
        until(lambda: server.get("/health")["queue"]["waiting"] == 6)
        status, headers, answer = server.send("POST", "/predict", b'{"text": "a"}', content_type="application/json")
        assert status == 503 and headers["retry-after"] == "1" and "6 texts wait" in json.loads(answer)["error"]
    finally:
        echo.go.set()
    for line in lines:
        with closing(line):
            assert line.recv(1000).startswith(b"HTTP/1.1 200 ")
    assert server.ask({"text": "a"})[0] == 200


def test_too_many_clients_are_told_so():
    with serving(Echo(), Limits(clients=3)) as server:
        lines = [server.begin("slow", unfinished=True) for _ in range(3)]
        until(lambda: server.send("GET", "/health")[0] == 503)
        status, answer = server.ask({"text": "a"})
        assert status == 503 and "too many clients: 3" in answer["error"]
        for line in lines:
            line.close()
        until(lambda: server.send("GET", "/health")[0] == 200)


def test_who_goes_away_does_not_stop_others_and_is_not_computed_for(server, echo):
    echo.go.clear()
    before = len(echo.batches)
    first = server.begin("first")
    until(lambda: server.get("/health")["queue"]["working"] == 1)
    gone, stays = server.begin("gone"), server.begin("stays")
    until(lambda: server.get("/health")["queue"]["waiting"] == 2)
    gone.close()
    until(lambda: server.get("/health")["queue"]["waiting"] == 1)
    echo.go.set()
    for line, wanted in ((first, b"tsrif"), (stays, b"syats")):
        with closing(line):
            answer = b""
            while wanted not in answer:
                answer += line.recv(4096) or pytest.fail(f"ended after {answer!r}")
    assert "gone" not in {text for batch in echo.batches[before:] for text in batch}
