"""Launcher: starts one process for each device of this machine, and ends all of them when one fails."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import FrameType

from kit.distributed.rank_info import ProcessMissing, RankInfo
from kit.errors import KitError
from kit.recipe.sections import TrainingSection

PARENT = "KIT_PARENT"
"""The environment variable with the id of the launcher; when that dies, the process ends too."""
_HANGUP = getattr(signal, "SIGHUP", None)
"""The signal of a terminal that was closed; Windows has none."""
_ASKED = (128 + signal.SIGINT, 128 + signal.SIGTERM, 129)
_GRACE = 10.0
"""Seconds that processes have to end by themselves after one of them failed."""
_SHORT = 2.0
"""The same where one of them was stuck."""
_POLL_INTERVAL = 0.05


def stop_signals() -> list[signal.Signals]:
    """The signals that ask a training to save and end; without SIGHUP where it is ignored, as under nohup."""
    hangup = [] if _HANGUP is None or signal.getsignal(_HANGUP) == signal.SIG_IGN else [_HANGUP]
    return [signal.SIGINT, signal.SIGTERM, *hangup]


def leave_terminal(number: int) -> None:
    """After SIGHUP, drop what is written to the terminal: writing to one that was closed is an error."""
    if number == _HANGUP:
        with open(os.devnull, "wb") as nowhere, suppress(OSError):
            for stream in (1, 2):
                if stat.S_ISCHR(os.fstat(stream).st_mode):
                    os.dup2(nowhere.fileno(), stream)


def must_launch(training: TrainingSection) -> bool:
    """Whether this process has to launch others that train; not if it is one of them itself."""
    return training.devices * training.nodes > 1 and RankInfo.from_environment() is None


def launch_processes(command: Sequence[str], training: TrainingSection, say: Callable[[str], None]) -> int:
    """Run a command once for each device of this machine; returns the exit code for this process."""
    if training.nodes > 1:
        return Processes(command, local_ranks(training), say).run()
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    # Served here and not by rank 0: no port has to be guessed, and the store outlives any rank.
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    return Processes(command, local_ranks(training, store.port), say).run()


def local_ranks(
    training: TrainingSection, port: int | None = None, environment: Mapping[str, str] | None = None
) -> list[RankInfo]:
    """The ranks of this machine; port: that of the rendezvous store, where all ranks are on this machine."""
    known = os.environ if environment is None else environment
    size, node = training.devices * training.nodes, 0
    if training.nodes > 1:
        missing = [name for name in ("MASTER_ADDR", "MASTER_PORT", "NODE_RANK") if not known.get(name)]
        if missing:
            raise KitError(
                f"training.nodes is {training.nodes}, and the addresses of the other nodes are not set: "
                f"{', '.join(missing)} not set\n"
                "    set MASTER_ADDR and MASTER_PORT to where node 0 listens, and NODE_RANK to 0, 1, ...;\n"
                "    or start it with kit launch RECIPE --slurm, or with torchrun"
            )
        node = int(known["NODE_RANK"]) if known["NODE_RANK"].isdigit() else -1
        if not 0 <= node < training.nodes:
            raise KitError(f"NODE_RANK is {known['NODE_RANK']!r}; wanted 0 to {training.nodes - 1}")
    address = "127.0.0.1" if port is not None else known["MASTER_ADDR"]
    where = port if port is not None else int(known["MASTER_PORT"])
    return [
        RankInfo(node * training.devices + number, size, number, training.devices, address, where, port is not None)
        for number in range(training.devices)
    ]


class Processes:
    """The processes of this machine while they run: they get signals together, and end together."""

    def __init__(self, command: Sequence[str], ranks: Sequence[RankInfo], say: Callable[[str], None]) -> None:
        self.command = command
        self.ranks = ranks
        self.say = say
        self._signal: int | None = None
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._codes: dict[int, int] = {}
        self._deadline: float | None = None

    def run(self) -> int:
        """Start the processes and wait for all; returns the exit code for this process: 0 if all succeeded."""
        before = {number: signal.signal(number, self._forward) for number in stop_signals()}
        try:
            for rank_info in self.ranks:
                if self._signal is None:
                    # In a group of its own, so that Ctrl-C in a terminal reaches it once, through this process.
                    environment = self._environment(rank_info)
                    self._running[rank_info.rank] = subprocess.Popen(self.command, env=environment, process_group=0)
            while self._running:
                self._poll()
                time.sleep(_POLL_INTERVAL)
        finally:
            self._end(signal.SIGKILL)
            for number, handler in before.items():
                signal.signal(number, handler)
        return self._status()

    def _poll(self) -> None:
        for rank, process in list(self._running.items()):
            code = process.poll()
            if code is None:
                continue
            del self._running[rank]
            self._codes[rank] = code
            if code < 0 and self._signal is None:
                others = "; the others are stopped" if len(self.ranks) > 1 else ""
                self.say(f"process {rank} was ended by {signal.Signals(-code).name} (its id was {process.pid}){others}")
                self._end(signal.SIGKILL)  # the steps since the last checkpoint are lost; what is on the disk is whole
                return
            if code and self._deadline is None:
                # The others notice and end by themselves, except one that is stuck.
                self._deadline = time.monotonic() + (_SHORT if code == ProcessMissing.exit_code else _GRACE)
        if self._deadline is not None and time.monotonic() > self._deadline and self._running:
            stuck = ", ".join(map(str, sorted(self._running)))
            self.say(f"process {stuck} did not end with the others, and is stopped")
            self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        for process in self._running.values():
            process.send_signal(number)
        if number == signal.SIGKILL:
            for rank, process in self._running.items():
                process.wait()
                self._codes.setdefault(rank, 0)  # it was ended from here: that is not what went wrong
            self._running.clear()

    def _forward(self, number: int, frame: FrameType | None) -> None:
        """Forward a signal to all processes."""
        leave_terminal(number)
        asked_before = self._signal is not None
        self._signal = number
        for process in self._running.values():
            process.send_signal(number)
        if asked_before and number == signal.SIGINT:
            self._deadline = time.monotonic()

    def _environment(self, rank_info: RankInfo) -> dict[str, str]:
        threads = str(max(1, (os.cpu_count() or 1) // rank_info.local_world_size))
        # torch warns where find_unused_parameters finds none, which is the usual case.
        quiet = {"OMP_NUM_THREADS": threads, "TORCH_CPP_LOG_LEVEL": "ERROR"}
        return {**quiet, **os.environ, **rank_info.environment(), PARENT: str(os.getpid())}

    def _status(self) -> int:
        """The first failure by rank; being asked to stop is one only where there is no other."""
        bad = [code for _, code in sorted(self._codes.items()) if code]
        if not bad:
            return 0 if self._codes or self._signal is None else 128 + self._signal
        code = next((code for code in bad if code not in _ASKED), bad[0])
        return 128 - code if code < 0 else code
