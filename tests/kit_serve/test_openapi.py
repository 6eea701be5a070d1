"""What `/openapi.json` says is what the server takes: every bound of it, and one beyond."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from processes.servers import Echo, Server, serving

from kit_serve.request import Limits, Refusal, validate

LIMITS = Limits(texts=4, characters=1500, nbest=3)


class Drawing(Echo):
    """Renders an attention page of one line."""

    def render(self, text: str, target: str | None) -> tuple[str, str]:
        """A page, and its policy."""
        return f"{text} {target}", "default-src 'none'"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(Drawing(), LIMITS) as started:
        yield started


@pytest.fixture(scope="module")
def paths(server: Server) -> Any:
    return server.get("/openapi.json")["paths"]


def ask(server: Server, **parameters: str) -> tuple[int, str]:
    status, headers, _ = server.send("GET", f"/attention?{urlencode(parameters)}")
    return status, headers["content-type"].partition(";")[0]


def test_attention_takes_the_parameters_that_it_names(server, paths):
    operation = paths["/attention"]["get"]
    parameters = {each["name"]: each for each in operation["parameters"]}
    assert {each["in"] for each in parameters.values()} == {"query"} and "requestBody" not in operation
    wanted = {name: "a" for name, each in parameters.items() if each["required"]}
    assert wanted and ask(server, **wanted)[0] == 200
    assert ask(server, **dict.fromkeys(parameters, "a"))[0] == 200
    for name in wanted:
        assert ask(server, **{other: "a" for other in parameters if other != name})[0] == 422
    assert ask(server, **wanted, other="a")[0] == 422
    for name, each in parameters.items():
        longest = each["schema"]["maxLength"]
        assert ask(server, **{**wanted, name: "a" * longest})[0] == 200
        assert ask(server, **{**wanted, name: "a" * (longest + 1)})[0] == 422
        assert ask(server, **{**wanted, name: "\x07"})[0] == 422
        assert not re.search(each["schema"]["pattern"], "\x07")


def test_attention_answers_with_the_types_that_it_names(server, paths):
    responses = paths["/attention"]["get"]["responses"]
    assert list(responses["200"]["content"]) == [ask(server, text="a")[1]] == ["text/html"]
    assert list(responses["422"]["content"]) == [ask(server)[1]] == ["text/plain"]
    elsewhere, headers, _ = server.send("GET", "/attention?text=a", sec_fetch_site="cross-site")
    assert elsewhere == 403 and next(iter(responses["403"]["content"])) in headers["content-type"]


def test_without_a_renderer_there_is_no_attention_to_describe():
    with serving(Echo()) as server:
        assert "/attention" not in server.get("/openapi.json")["paths"]


def test_predict_takes_what_its_schema_allows(server, paths):
    body = paths["/predict"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    text, texts, nbest = (body["properties"][name] for name in ("text", "texts", "nbest"))
    assert text["maxLength"] == texts["items"]["maxLength"]
    for number, wanted in ((0, 200), (1, 422)):
        assert server.ask({"text": "a" * (text["maxLength"] + number)})[0] == wanted
        assert server.ask({"texts": ["a"] * (texts["maxItems"] + number)})[0] == wanted
        assert server.ask({"text": "a", "nbest": int(nbest["maximum"]) + number})[0] == wanted
        assert server.ask({"text": "a", "nbest": int(nbest["minimum"]) - number})[0] == wanted


def test_the_pattern_allows_the_characters_that_are_read(paths):
    body = paths["/predict"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    pattern = re.compile(body["properties"]["text"]["pattern"])
    for character in [*map(chr, range(0x300)), "\u2028", "\ufffd", "\U0001f600"]:
        try:
            read = bool(validate({"text": f"a{character}b"}, LIMITS))
        except Refusal:
            read = False
        assert bool(pattern.search(f"a{character}b")) == read, ascii(character)
