"""`kit serve` on a real run, in a process of its own."""

from __future__ import annotations

import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from processes.load_test import Tally, soak
from processes.servers import PATIENCE, Process
from typer.testing import CliRunner

import kit
from kit.cli.main import app
from kit.runs.run_directory import RunDirectory
from kit_serve.served_run import held_out_examples

pytestmark = pytest.mark.xdist_group("browser")  # with the page: both would else train the run


SEARCH = "beam size=4"


@pytest.fixture(scope="module")
def started(run: Path) -> Iterator[Process]:
    """One for several tests, because importing torch takes a while; at the end it is stopped with Ctrl-C."""
    with Process(run, "--search", SEARCH) as process:
        yield process
        code, out, err = process.stop(signal.SIGINT)
        assert code == 0 and "stopped" in out and "Traceback" not in err, err


def expected(run: Path) -> dict[str, str]:
    """What the model answers to some texts, asked one by one."""
    predictor = kit.load(run)
    texts = [" ".join(symbols) for length in (1, 2, 3) for symbols in product("012345", repeat=length)][::2]
    return {text: predictor.predict([text], search=SEARCH)[0].text for text in texts}


def checked(tally: Tally) -> None:
    assert tally.lost == [] and tally.mixed == [], f"{tally.lost[:5]} {tally.mixed[:5]} {tally}"


def test_many_clients_get_their_own_answers(run, started):
    tally = soak(started.server, expected(run), clients=64, seconds=3)
    checked(tally)
    assert tally.requests > 64 and tally.refused + tally.left
    queue = started.server.get("/health")["queue"]
    assert queue["batches"] < queue["answered"], "requests share batches"


@pytest.mark.slow
def test_many_clients_for_a_minute(run, started, capsys):
    tally = soak(started.server, expected(run), clients=64, seconds=60)
    with capsys.disabled():
        print(f"\n{tally}\n{started.server.get('/health')}")
    checked(tally)
    assert tally.refused and tally.left


@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which("g++") or shutil.which("clang++")), reason="there is no C++ compiler here")
def test_compiled_it_answers_the_same(run):
    texts = ["1", "1 2", "3 4 5"]
    wanted = [prediction.text for prediction in kit.load(run).predict(texts, search=SEARCH)]
    with Process(run, "--search", SEARCH, "--compile") as process:
        answers = [process.server.ask({"text": text}) for text in texts]
        code, _, err = process.stop(signal.SIGINT)
    assert code == 0 and "not compiled" not in err, err
    assert [(status, answer["answers"][0]["outputs"][0]["text"]) for status, answer in answers] == [
        (200, text) for text in wanted
    ]


def test_the_page_shows_what_the_run_answers(run, started, browser):
    page = browser.open(started.server.url)
    page.wait("document.title.includes('·')")
    assert page.texts(".chip") == list(held_out_examples(RunDirectory(run).reports)) and len(page.texts(".chip")) == 6
    page.type("1 2")
    page.press("Enter")
    page.wait("document.querySelector('article:not([aria-busy])')")
    assert page.texts(".failed .why") == [], page.problems
    (wanted,) = kit.load(run).predict(["1 2"], search=SEARCH, nbest=3)
    assert page.texts("article .what") == [output.text for output in wanted.outputs]
    assert page.problems == [] and all(url.startswith(started.server.url) for url in page.requests)
    assert started.server.get("/about")["limits"]["nbest"] == 4, "as many as the beam is wide"
    page.close()


def test_sigterm_ends_it_when_everything_is_answered(run):
    with Process(run, "--batch", "1") as process:
        assert process.server.host == "127.0.0.1", "nobody else is let in"
        status, answer = process.server.ask({"text": "1 2", "nbest": 2})
        assert status == 200 and len(answer["answers"][0]["outputs"]) == 1, "as many as its search gives"
        assert process.server.ask({"text": "1 2", "nbest": 11})[0] == 422, "more than any search may give"
        answers: list[tuple[int, Any]] = []
        body = {"texts": ["1 2 3 4"] * 60}
        client = threading.Thread(target=lambda: answers.append(process.server.ask(body)))
        client.start()
        deadline = time.monotonic() + PATIENCE
        while not process.server.get("/health")["queue"]["answered"]:
            assert time.monotonic() < deadline
        code, out, err = process.stop()
        client.join()
        assert code == 0 and "stopped" in out and "Traceback" not in err, err
        assert answers[0][0] == 200 and len(answers[0][1]["answers"]) == 60


def test_mistakes_on_the_command_line(run, monkeypatch):
    def said(*words: str) -> str:
        result = CliRunner().invoke(app, ["serve", *words])
        assert result.exit_code
        return f"{result.output} {result.exception}"

    assert "no run 'nothing'" in said("nothing", "--port", "0")
    assert "no search is called 'nonsense'" in said(str(run), "--port", "0", "--search", "nonsense")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert "pip install 'kitformer[serve]'" in said(str(run))
