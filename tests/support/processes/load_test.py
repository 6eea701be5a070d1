"""Many clients at once, for a while: what they lost, what they got that was another's, and how long they waited."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from processes.servers import Server

BAD = (
    (b'{"text": 3}', "application/json"),
    (b'{"text": "a\\u0000"}', "application/json"),
    (b"\xff\xfe", "application/json"),
    (b'{"txt": "a"}', "application/json"),
    (b"text=a", "application/x-www-form-urlencoded"),
)


@dataclass
class Tally:
    """What came of it."""

    requests: int = 0
    texts: int = 0
    refused: int = 0
    """Bad requests that were answered with 4xx, as they should be."""
    left: int = 0
    """Clients that went away without waiting."""
    lost: list[str] = field(default_factory=list)
    """Good requests without a good answer, bad ones without a refusal."""
    mixed: list[str] = field(default_factory=list)
    """Answers that are not to what was asked."""
    seconds: list[float] = field(default_factory=list)

    def quantile(self, share: float) -> float:
        """How long so large a share of the requests took at most."""
        return sorted(self.seconds)[min(len(self.seconds) - 1, int(share * len(self.seconds)))]

    def __str__(self) -> str:
        return (
            f"{self.requests} requests with {self.texts} texts: {len(self.lost)} lost, {len(self.mixed)} mixed up; "
            f"{self.refused} bad ones refused, {self.left} clients left early; p50 {self.quantile(0.5) * 1e3:.0f} ms, "
            f"p99 {self.quantile(0.99) * 1e3:.0f} ms, slowest {max(self.seconds) * 1e3:.0f} ms"
        )


def soak(server: Server, expected: Mapping[str, str], clients: int, seconds: float) -> Tally:
    """Let clients ask for texts whose answers are known; some send nonsense between, and some hang up."""
    tally, lock, end = Tally(), threading.Lock(), time.monotonic() + seconds
    texts = sorted(expected)

    def client(number: int) -> None:
        chance = random.Random(number)
        connection = server.connect()
        while time.monotonic() < end:
            kind = chance.random()
            if kind < 0.02:
                body, content = chance.choice(BAD)
                status, _ = _send(connection, body, content)
                with lock:
                    if 400 <= status < 500:
                        tally.refused += 1
                    else:
                        tally.lost.append(f"{body!r} got {status}")
            elif kind < 0.04:
                _leave(server, chance.choice(texts))
                with lock:
                    tally.left += 1
            else:
                asked = [chance.choice(texts) for _ in range(chance.choice((1, 1, 1, 2, 5)))]
                began = time.monotonic()
                try:
                    status, answer = _send(connection, json.dumps({"texts": asked}).encode(), "application/json")
                except (OSError, http.client.HTTPException) as error:
                    connection.close()
                    status, answer = 0, repr(error).encode()
                took = time.monotonic() - began
                with lock:
                    _count(tally, asked, status, answer, expected, took)
        connection.close()

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return tally


def _send(connection: http.client.HTTPConnection, body: bytes, content: str) -> tuple[int, bytes]:
    connection.request("POST", "/predict", body, {"Content-Type": content})
    response = connection.getresponse()
    return response.status, response.read()


def _leave(server: Server, text: str) -> None:
    """Ask, and hang up at once."""
    body = json.dumps({"text": text}).encode()
    with server.raw() as line:
        head = f"POST /predict HTTP/1.1\r\nHost: {server.host}\r\nContent-Type: application/json\r\n"
        line.sendall(head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)


def _count(
    tally: Tally, asked: list[str], status: int, answer: bytes, expected: Mapping[str, str], took: float
) -> None:
    tally.requests += 1
    tally.texts += len(asked)
    tally.seconds.append(took)
    if status != 200:
        tally.lost.append(f"{asked} got {status}: {answer[:200]!r}")
        return
    found = [(each["input"], each["outputs"][0]["text"]) for each in json.loads(answer)["answers"]]
    if found != [(text, expected[text]) for text in asked]:
        tally.mixed.append(f"{asked} got {found}")
