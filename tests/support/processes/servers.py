"""Servers to ask: with a predictor that is quick and knows its answers, in a thread; or `kit serve` itself."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from kit.errors import KitError
from kit.prediction.predictor import Prediction
from kit.prediction.tasks import Output
from kit_serve.application import application
from kit_serve.request import Limits
from kit_serve.served_run import RunDescription
from kit_serve.server import listen

PATIENCE = 120.0
"""Seconds that anything may take on a busy machine."""
LABELS = ("red", "green", "blue")


class Echo:
    """Answers with the text turned round, so that everybody knows what their answer has to be.

    `wait` holds the model until the test lets go; some texts make it fail.
    """

    def __init__(self, task: str = "seq2seq") -> None:
        self.task = task
        self.batches: list[list[str]] = []
        self.nbest: list[int] = []
        self.go = threading.Event()
        self.go.set()

    def predict(self, inputs: Sequence[str], *, nbest: int = 1) -> list[Prediction]:
        """The answers; whatever was asked is noted first."""
        self.batches.append(list(inputs))
        self.nbest.append(nbest)
        assert self.go.wait(PATIENCE)
        if "wrong" in inputs:
            raise KitError("this text is wrong")
        if "crash" in inputs:
            raise ZeroDivisionError("a secret of the server")
        if "exit" in inputs:
            raise SystemExit(1)
        if "fewer" in inputs:
            return []
        return [Prediction(text, self.outputs(text, nbest), self.problem(text)) for text in inputs]

    def outputs(self, text: str, nbest: int) -> tuple[Output, ...]:
        """So many answers, the best first."""
        if self.task == "classify":
            return tuple(Output(label, 0.75 / 3**place) for place, label in enumerate(LABELS))[:nbest]
        if self.task == "fill_mask":
            return tuple(Output(text.replace("___", word), -1.0) for word in ("cat", "dog", "log")[:nbest])
        best = text[::-1]
        return tuple(
            Output(best + "!" * place, -float(place), tuple(best), text != "endless") for place in range(nbest)
        )

    def problem(self, text: str) -> str:
        """A note on some texts."""
        return "unknown: '☃'" if "☃" in text else ""


@dataclass(frozen=True)
class Server:
    """Where a server is, and ways to ask it."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """Its page."""
        return f"http://{self.host}:{self.port}/"

    def connect(self) -> http.client.HTTPConnection:
        """A connection of its own."""
        return http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE)

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
        """Any request: status, headers in lower case, body."""
        connection = self.connect()
        try:
            connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
            response = connection.getresponse()
            return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
        finally:
            connection.close()

    def ask(self, body: Any, **headers: str) -> tuple[int, Any]:
        """A question, given as bytes or as data: status and what is in the answer."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        status, _, answer = self.send("POST", "/predict", data, **{"content_type": "application/json", **headers})
        return status, json.loads(answer)

    def get(self, path: str) -> Any:
        """What is at a path, as data."""
        status, _, answer = self.send("GET", path)
        assert status == 200, answer
        return json.loads(answer)

    def raw(self) -> socket.socket:
        """A connection to write anything into."""
        return socket.create_connection((self.host, self.port), timeout=PATIENCE)

    def begin(self, text: str, unfinished: bool = False) -> socket.socket:
        """Send a question and do not wait for the answer; unfinished: and not all of it."""
        body = json.dumps({"text": text}).encode()
        length = f"Content-Length: {len(body)}"
        head = f"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{length}\r\n\r\n"
        line = self.raw()
        line.sendall(head.encode() + body[: -1 if unfinished else None])
        return line


def until(true: Callable[[], bool]) -> None:
    """Wait for something to become true."""
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@contextmanager
def serving(
    predictor: Echo, limits: Limits | None = None, names: Sequence[str] | None = None, examples: Sequence[str] = ()
) -> Iterator[Server]:
    """The application over real HTTP, in a thread."""
    limits = limits or Limits()
    about = RunDescription("echo/1", predictor.task, 1234, "Turns texts round.", tuple(examples))
    app = application(predictor, about, limits, names, getattr(predictor, "render", None))
    config = uvicorn.Config(app, http="h11", ws="none", log_level="critical")
    server = uvicorn.Server(config)
    listener, address = listen("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield Server(address.host, address.port)
    finally:
        predictor.go.set()
        server.should_exit = True
        thread.join(PATIENCE)
        assert not thread.is_alive()


class Process:
    """`kit serve` in a process of its own, on a free port; the same `Server` is in `server`."""

    def __init__(self, run: Path, *options: str) -> None:
        command = [sys.executable, "-P", "-m", "kit", "serve", str(run), "--port", "0", *options]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        assert self.process.stdout is not None
        self.said = self.process.stdout.readline()
        if " answers at http://" not in self.said:
            raise AssertionError(self.said + "".join(self.process.communicate()))
        host, _, port = self.said.rstrip().rpartition("//")[2].rpartition(":")
        self.server = Server(host, int(port))

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str, str]:
        """Signal it, and wait until it has ended: exit code, and the rest of what it said."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, out, err

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
