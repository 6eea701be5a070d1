"""Watchdog: a thread on each rank that sends heartbeats, names the ranks that are dead or stuck, and ends this one."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from torch.distributed import Store  # type: ignore[attr-defined]

from kit.distributed.rank_info import ProcessMissing, RankInfo

STOP_WITHIN = 25.0
"""Seconds that a rank has to end after a stop request; schedulers kill after 30."""
HEARTBEAT_INTERVAL = 1.0
"""Seconds between two heartbeats, or fewer with a short timeout."""
SAVING = "saving"
"""The activity that a stop request never cuts short."""
_STOP = "stop"


@dataclass
class Heartbeat:
    """The last heartbeat of a rank: when it came, and how far the rank was."""

    text: str = ""
    received_at: float = field(default_factory=time.monotonic)
    moved_at: float = field(default_factory=time.monotonic)
    behind_since: float | None = None
    """Since when other ranks are known to be further; None where none is."""
    progress: int = 0
    activity: str = "getting ready"

    def receive(self, text: str) -> None:
        """Take the text of a heartbeat."""
        if text == self.text:
            return
        now = time.monotonic()
        _, progress, activity = text.split(" ", 2)
        if (int(progress), activity) != (self.progress, self.activity):
            self.moved_at, self.progress, self.activity = now, int(progress), activity
        self.text, self.received_at = text, now


class Watchdog:
    """Rank 0 watches all ranks, and all watch rank 0, so that the cost is linear in the number of ranks."""

    def __init__(self, rank_info: RankInfo, store: Store, timeout: float, hosts: list[str]) -> None:
        self.rank_info = rank_info
        self.store = store
        self.timeout = timeout
        self.hosts = hosts
        self.activity = "getting ready"
        self.stop_requested: Callable[[], bool] = lambda: False
        """Whether this rank was asked to stop."""
        self.request_stop: Callable[[], None] = lambda: None
        """Asks this rank to stop, because another was asked."""
        self.parent: int | None = None
        """The id of the launcher, if this process is to end with it."""
        self._stop_requested_at: float | None = None
        self._progress = 0
        self._stopped = threading.Event()
        watched = range(rank_info.world_size) if rank_info.is_main else (0,)
        self._heartbeats = {rank: Heartbeat() for rank in watched if rank != rank_info.rank}
        self._thread = threading.Thread(target=self._run, name="kit-watch", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread: from here on no rank is missed."""
        self._stopped.set()
        self._thread.join(timeout=5)

    def report_progress(self, activity: str) -> None:
        """Count one more stage, and name it; all ranks go through the same stages in the same order."""
        self._progress += 1
        self.activity = activity

    def stuck(self, within: float) -> list[str]:
        """In words, the ranks whose heartbeats are missing, or that are behind the others, for so many seconds."""
        now = time.monotonic()
        heartbeats = self._heartbeats
        furthest = max([self._progress, *(beat.progress for beat in heartbeats.values())])
        missing = [rank for rank, beat in heartbeats.items() if now - beat.received_at > within]
        for beat in heartbeats.values():
            # A stage that all ranks are in may take any time: a rank is behind from when another enters the next stage.
            beat.behind_since = None if beat.progress >= furthest else max(beat.moved_at, beat.behind_since or now)
        behind = {rank: now - beat.behind_since for rank, beat in heartbeats.items() if beat.behind_since is not None}
        # A rank that is behind for so long may have died only after its last stage.
        late = missing or [rank for rank, seconds in behind.items() if seconds > within]
        dead = [rank for rank in late if now - heartbeats[rank].received_at > within / 2]
        if dead:
            return [f"{self._name(rank)} gives no sign of life (it was {heartbeats[rank].activity})" for rank in dead]
        return [f"{self._name(rank)} is stuck: {heartbeats[rank].activity}, where others wait for it" for rank in late]

    def _run(self) -> None:
        pause = min(HEARTBEAT_INTERVAL, self.timeout / 10)
        count = 0
        while not self._stopped.wait(pause):
            count += 1
            self._follow_launcher()
            self._stop_in_time()
            try:
                self.store.set(f"heartbeat/{self.rank_info.rank}", f"{count} {self._progress} {self.activity}")
                keys = [f"heartbeat/{rank}" for rank in self._heartbeats]
                for beat, key in zip(self._heartbeats.values(), keys, strict=True):
                    if self.store.check([key]):
                        beat.receive(self.store.get(key).decode())
                if self.stop_requested():
                    self.store.set(_STOP, "")
                elif self.store.check([_STOP]):
                    self.request_stop()
                if not self.rank_info.is_main and self.store.check(["verdict"]):
                    self._end("", ProcessMissing.exit_code)
            except RuntimeError:
                if not self._stopped.wait(2.0):
                    self._end(f"{self._name(0)} is gone: it does not answer any more", ProcessMissing.exit_code)
                return
            found = self.stuck(self.timeout)
            if found and not self._stopped.is_set():
                text = "; ".join(found) + f" for {self.timeout:g} s (training.timeout)"
                if self.rank_info.is_main:
                    self.store.set("verdict", text)
                self._end(text, ProcessMissing.exit_code)

    def _follow_launcher(self) -> None:
        """Request a stop if the launcher of this process has died."""
        if self.parent is not None and os.getppid() != self.parent:
            self.parent = None
            self._stop_requested_at = time.monotonic()
            os.kill(os.getpid(), signal.SIGTERM)

    def _stop_in_time(self) -> None:
        if self._stop_requested_at is None:
            self._stop_requested_at = time.monotonic() if self.stop_requested() else None
        elif time.monotonic() - self._stop_requested_at > STOP_WITHIN and not self.activity.startswith(SAVING):
            self._end(
                f"{self._name(self.rank_info.rank)} was asked to stop and could not within {STOP_WITHIN:g} s", 143
            )

    def _name(self, rank: int) -> str:
        return f"process {rank} on {self.hosts[rank]}"

    def _end(self, text: str, code: int) -> None:
        """End the process at once: the main thread may wait in a collective for ever."""
        if text:
            print(text, file=sys.stderr, flush=True)
        os._exit(code)
