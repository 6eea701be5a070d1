"""A thread in each of many processes that says it is alive, names those that are stuck, and lets nobody stay behind."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from torch.distributed import Store  # type: ignore[attr-defined]

from kit.training.membership import Member, ProcessMissing

LEAVE_WITHIN = 25.0
"""Seconds that a process has to leave once it was asked to; schedulers kill after 30."""
BEAT = 1.0
"""Seconds between two signs of life, or fewer where time is short."""
SAVING = "saving"
"""What a process is doing that is not cut short when it was asked to stop."""
_ASKED = "asked"


@dataclass
class Beat:
    """What is known of a process: when it last said something, and how far it was."""

    text: str = ""
    heard: float = field(default_factory=time.monotonic)
    moved: float = field(default_factory=time.monotonic)
    behind: float | None = None
    """Since when others are known to be further; None where they are not."""
    marks: int = 0
    doing: str = "getting ready"

    def hear(self, text: str) -> None:
        """Take what it says now."""
        if text == self.text:
            return
        now = time.monotonic()
        _, marks, doing = text.split(" ", 2)
        if (int(marks), doing) != (self.marks, self.doing):
            self.moved, self.marks, self.doing = now, int(marks), doing
        self.text, self.heard = text, now


class Watch:
    """The first process watches all, and all watch the first: the cost grows with their number, not with its square."""

    def __init__(self, member: Member, store: Store, timeout: float, hosts: list[str]) -> None:
        self.member = member
        self.store = store
        self.timeout = timeout
        self.hosts = hosts
        self.doing = "getting ready"
        self.was_asked: Callable[[], bool] = lambda: False
        """Says whether this process was asked to stop."""
        self.tell: Callable[[], None] = lambda: None
        """Says to this process that another was asked."""
        self.parent: int | None = None
        """The process that started this one, where it is to end with it."""
        self._asked_at: float | None = None
        self._marks = 0
        self._leaving = threading.Event()
        watched = range(member.size) if member.first else (0,)
        self._beats = {rank: Beat() for rank in watched if rank != member.rank}
        self._thread = threading.Thread(target=self._run, name="kit-watch", daemon=True)

    def start(self) -> None:
        """Begin to beat and to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Everyone is done: nobody is missed any more."""
        self._leaving.set()
        self._thread.join(timeout=5)

    def mark(self, doing: str) -> None:
        """This process got one step further; all processes pass the same marks in the same order."""
        self._marks += 1
        self.doing = doing

    def stuck(self, within: float) -> list[str]:
        """Who is not heard of for so long, or stays behind where the others are; as a person wants to read it."""
        now = time.monotonic()
        beats = self._beats
        furthest = max([self._marks, *(beat.marks for beat in beats.values())])
        missed = [rank for rank, beat in beats.items() if now - beat.heard > within]
        for beat in beats.values():
            # To stay where all are is not to be late, however long it takes: the wait begins when somebody goes on.
            beat.behind = None if beat.marks >= furthest else max(beat.moved, beat.behind or now)
        waited = {rank: now - beat.behind for rank, beat in beats.items() if beat.behind is not None}
        # A process that has not moved for so long may have fallen silent only after its last step.
        late = missed or [rank for rank, seconds in waited.items() if seconds > within]
        silent = [rank for rank in late if now - beats[rank].heard > within / 2]
        if silent:
            return [f"{self._name(rank)} gives no sign of life (it was {beats[rank].doing})" for rank in silent]
        return [f"{self._name(rank)} is stuck: {beats[rank].doing}, where others wait for it" for rank in late]

    def _run(self) -> None:
        pause = min(BEAT, self.timeout / 10)
        count = 0
        while not self._leaving.wait(pause):
            count += 1
            self._follow_parent()
            self._leave_in_time()
            try:
                self.store.set(f"beat/{self.member.rank}", f"{count} {self._marks} {self.doing}")
                keys = [f"beat/{rank}" for rank in self._beats]
                for beat, key in zip(self._beats.values(), keys, strict=True):
                    if self.store.check([key]):
                        beat.hear(self.store.get(key).decode())
                if self.was_asked():
                    self.store.set(_ASKED, "")
                elif self.store.check([_ASKED]):
                    self.tell()
                if not self.member.first and self.store.check(["verdict"]):
                    self._end("", ProcessMissing.exit_code)
            except RuntimeError:
                if not self._leaving.wait(2.0):
                    self._end(f"{self._name(0)} is gone: it does not answer any more", ProcessMissing.exit_code)
                return
            found = self.stuck(self.timeout)
            if found and not self._leaving.is_set():
                text = "; ".join(found) + f" for {self.timeout:g} s (training.timeout)"
                if self.member.first:
                    self.store.set("verdict", text)
                self._end(text, ProcessMissing.exit_code)

    def _follow_parent(self) -> None:
        """Whoever started this process is gone: save and leave."""
        if self.parent is not None and os.getppid() != self.parent:
            self.parent = None
            self._asked_at = time.monotonic()
            os.kill(os.getpid(), signal.SIGTERM)

    def _leave_in_time(self) -> None:
        if self._asked_at is None:
            self._asked_at = time.monotonic() if self.was_asked() else None
        elif time.monotonic() - self._asked_at > LEAVE_WITHIN and not self.doing.startswith(SAVING):
            self._end(f"{self._name(self.member.rank)} was asked to stop and could not within {LEAVE_WITHIN:g} s", 143)

    def _name(self, rank: int) -> str:
        return f"process {rank} on {self.hosts[rank]}"

    def _end(self, text: str, code: int) -> None:
        """The main thread may wait inside an exchange for ever, so it is not asked."""
        if text:
            print(text, file=sys.stderr, flush=True)
        os._exit(code)
