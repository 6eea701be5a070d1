"""A process is late only from when others have gone on, not because all took long to get ready."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

from kit.training.watch import Watch


def watch() -> Any:
    member: Any = SimpleNamespace(rank=0, size=2, first=True)
    store: Any = None
    return Watch(member, store, 4.0, ["a", "b"])


def test_whoever_took_as_long_as_all_is_not_late_when_the_first_goes_on() -> None:
    watching = watch()
    beat = watching._beats[1]
    beat.moved -= 100.0
    watching.mark("step 1")
    assert watching.stuck(4.0) == []
    beat.behind = time.monotonic() - 5.0
    assert watching.stuck(4.0) == ["process 1 on b is stuck: getting ready, where others wait for it"]
    beat.heard -= 3.0
    assert watching.stuck(4.0) == ["process 1 on b gives no sign of life (it was getting ready)"]
    beat.hear("7 1 step 1")
    assert watching.stuck(4.0) == []
