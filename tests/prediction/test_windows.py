"""A stream is read some lines at a time, without waiting for lines that nobody has written yet."""

from __future__ import annotations

import queue
from collections.abc import Iterator

import pytest

from kit.prediction.inputs import arriving_windows, fixed_windows


def test_windows_hold_so_many() -> None:
    assert list(fixed_windows(map(str, range(5)), 2)) == [["0", "1"], ["2", "3"], ["4"]]
    assert list(fixed_windows([], 2)) == []


def test_a_line_is_given_before_the_next_is_written() -> None:
    typed: queue.Queue[str | None] = queue.Queue()

    def lines() -> Iterator[str]:
        while (line := typed.get(timeout=30)) is not None:
            yield line

    windows = arriving_windows(lines())
    for word in ("one", "two"):
        typed.put(word)
        assert next(windows) == [word]
    typed.put(None)
    assert list(windows) == []


def test_all_lines_come_in_order_and_never_more_than_a_window() -> None:
    found = list(arriving_windows(map(str, range(1000)), 7))
    assert [line for window in found for line in window] == [str(number) for number in range(1000)]
    assert max(map(len, found)) <= 7


def test_what_goes_wrong_in_reading_is_told_after_what_was_read() -> None:
    def lines() -> Iterator[str]:
        yield "one"
        raise OSError("gone")

    windows = arriving_windows(lines())
    assert next(windows) == ["one"]
    with pytest.raises(OSError, match="gone"):
        next(windows)
