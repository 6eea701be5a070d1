"""A rank is behind only from when others have gone on, not because all took long to prepare."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

from kit.distributed.watchdog import Watchdog


def watchdog() -> Any:
    rank_info: Any = SimpleNamespace(rank=0, world_size=2, is_main=True)
    store: Any = None
    return Watchdog(rank_info, store, 4.0, ["a", "b"])


def test_a_rank_that_took_as_long_as_all_is_not_behind_when_another_goes_on() -> None:
    watching = watchdog()
    beat = watching._heartbeats[1]
    beat.moved_at -= 100.0
    watching.report_progress("step 1")
    assert watching.stuck(4.0) == []
    beat.behind_since = time.monotonic() - 5.0
    assert watching.stuck(4.0) == ["process 1 on b is stuck: getting ready, where others wait for it"]
    beat.received_at -= 3.0
    assert watching.stuck(4.0) == ["process 1 on b gives no sign of life (it was getting ready)"]
    beat.receive("7 1 step 1")
    assert watching.stuck(4.0) == []
