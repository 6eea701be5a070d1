"""Texts of a stream, some at a time: few enough to hold in memory, many enough to be batched by length."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from itertools import islice

WINDOW = 512
"""The most texts that are held at a time."""


def in_windows(lines: Iterable[str], most: int = WINDOW) -> Iterator[list[str]]:
    """So many at a time."""
    left = iter(lines)
    while window := list(islice(left, most)):
        yield window


def as_they_come(lines: Iterable[str], most: int = WINDOW) -> Iterator[list[str]]:
    """All that have arrived, at least one and so many at most: whoever writes a line need not wait for the next.

    Lines are read in another thread, which never is more than a window ahead.
    """
    arrived: queue.Queue[str | BaseException | None] = queue.Queue(most)
    given_up = threading.Event()

    def put(item: str | BaseException | None) -> bool:
        while not given_up.is_set():
            try:
                arrived.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def read() -> None:
        try:
            if all(put(line) for line in lines):
                put(None)
        except BaseException as error:  # told where the lines are wanted
            put(error)

    threading.Thread(target=read, daemon=True).start()
    try:
        while True:
            window: list[str] = []
            item = arrived.get()
            while isinstance(item, str):
                window.append(item)
                if len(window) == most:
                    break
                try:
                    item = arrived.get_nowait()
                except queue.Empty:
                    break
            if window:
                yield window
            if isinstance(item, BaseException):
                raise item
            if item is None:
                return
    finally:
        given_up.set()
