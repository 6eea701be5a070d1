"""A server with as many connections as it may have goes on: idle ones make room, requests are not cut off."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from processes.load_test import soak
from processes.servers import PATIENCE, Echo, Process, Server, until

import kit
from kit.errors import KitError
from kit_serve.server import listen, run_server

ROOT = Path(__file__).parents[2]
LIMIT = 128
"""The limit of open files; about 50 connections remain."""
PROGRAM = """
from processes.servers import Echo
from kit_serve.application import application
from kit_serve.request import Limits
from kit_serve.served_run import RunDescription
from kit_serve.server import listen, run_server

listener, address = listen("127.0.0.1", 0)
app = application(Echo(), RunDescription("echo/1", "seq2seq", 1), Limits(read_timeout=120))
run_server(app, listener, lambda: print(address.port, flush=True))
"""


@contextmanager
def open_files(limit: int) -> Iterator[None]:
    """With a limit of open files for processes that are started meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def crowded() -> Iterator[tuple[Server, list[str]]]:
    """A server that may open few files, and what it wrote to standard error, once it has ended."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "plugins", ROOT / "tests/support")))}
    said: list[str] = []
    with open_files(LIMIT):
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
    try:
        assert process.stdout is not None
        yield Server("127.0.0.1", int(process.stdout.readline())), said
        process.terminate()
        said += process.communicate(timeout=PATIENCE)[1].splitlines()
        assert process.returncode == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def closed(line: socket.socket) -> bool:
    """Whether the server has closed a connection that it has nothing to say on."""
    line.setblocking(False)
    try:
        return line.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    finally:
        line.settimeout(PATIENCE)


def finished(line: socket.socket) -> bytes:
    """The status line of a request of `Server.begin` after its last byte."""
    line.sendall(b"}")
    return line.recv(1000).partition(b"\r\n")[0]


def test_the_idlest_connections_make_room_and_requests_are_not_cut_off():
    with ExitStack() as lines, crowded() as (server, said):
        asking = lines.enter_context(server.begin("first", unfinished=True))
        idle = [lines.enter_context(server.raw()) for _ in range(100)]
        for line in idle[::2]:
            line.sendall(b"GET /health HTTP/1.1\r\nHost:")  # a request that never ends is none
        for _ in range(5):
            assert server.ask({"text": "ab"})[0] == 200
        assert closed(idle[0]) and not closed(idle[-1]), "the newest is kept"
        assert 20 < sum(not closed(line) for line in idle) < LIMIT - 64
        assert finished(asking) == b"HTTP/1.1 200 OK"

        # The same where no connection is idle: the others wait for their turn.
        lines.pop_all().close()
        asking_too = [lines.enter_context(server.begin(str(number), unfinished=True)) for number in range(LIMIT)]
        answers: list[int] = []
        late = threading.Thread(target=lambda: answers.append(server.ask({"text": "late"})[0]))
        late.start()
        assert [finished(line) for line in asking_too] == [b"HTTP/1.1 200 OK"] * LIMIT
        late.join(PATIENCE)
        assert answers == [200]
    assert len(said) == 1 and "ulimit -n" in said[0], said


def test_a_limit_that_leaves_no_room_is_told_before_the_start(monkeypatch):
    listener, _ = listen("127.0.0.1", 0)
    monkeypatch.setattr(os, "sysconf", lambda name: 70)
    with listener, pytest.raises(KitError, match=r"may open 70 files.*ulimit -n"):
        run_server(Echo, listener, lambda: pytest.fail("it has not begun"))  # type: ignore[arg-type]


@pytest.mark.slow
def test_many_clients_while_1100_idle_connections_stand_open(run: Path, capsys: pytest.CaptureFixture[str]):
    """64 clients for 20 seconds (or KIT_SOAK_SECONDS); a connection that the server closes is opened anew."""
    predictor = kit.load(run)
    texts = [f"{first} {second}" for first in range(6) for second in range(6)]
    expected = {text: predictor.predict([text])[0].text for text in texts}
    stop, opened = threading.Event(), [0]

    def idle() -> None:
        lines: list[socket.socket] = []
        while not stop.is_set():
            gone = [line for line in lines if closed(line)]
            for line in gone:
                line.close()
                lines.remove(line)
            while len(lines) < 1100 and not stop.is_set():
                lines.append(server.raw())
                opened[0] += 1
                if opened[0] % 2:
                    lines[-1].sendall(b"POST /predict HT")
            stop.wait(0.2)
        for line in lines:
            line.close()

    with open_files(1024):
        process = Process(run)
    with process, open_files(min(4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1])):
        server = process.server
        keeper = threading.Thread(target=idle)
        keeper.start()
        until(lambda: opened[0] >= 1100)
        tally = soak(server, expected, clients=64, seconds=float(os.environ.get("KIT_SOAK_SECONDS", "20")))
        health = server.get("/health")
        stop.set()
        keeper.join(PATIENCE)
        code, out, err = process.stop()
    with capsys.disabled():
        print(f"\n{tally}; {opened[0]} idle connections were opened\n{health}\n{err}")
    assert tally.lost == [] and tally.mixed == [], f"{tally.lost[:5]} {tally.mixed[:5]} {tally}"
    assert tally.requests > 64 and code == 0 and "stopped" in out
    assert len(err.splitlines()) == 1 and "ulimit -n" in err
