"""Rendezvous of the processes of a training: all arrive, train the same recipe, and can exchange numbers."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING

import torch
from torch import distributed
from torch.distributed import PrefixStore, Store, TCPStore  # type: ignore[attr-defined]

from kit.distributed.launcher import PARENT
from kit.distributed.rank_info import ProcessMissing, RankInfo
from kit.distributed.watchdog import HEARTBEAT_INTERVAL, Watchdog
from kit.errors import KitError
from kit.kernels.devices import devices_here, gpu_count, gpu_device, has_accelerator, is_cpu, is_gpu

if TYPE_CHECKING:
    from kit.recipe.sections import TrainingSection


COLLECTIVE_TIMEOUT = timedelta(minutes=30)
"""The timeout of a collective; the watchdog finds a process that is stuck much earlier."""
_NOTICE_AFTER = 10.0
"""Seconds of waiting before a message names the missing processes."""


@dataclass(frozen=True)
class HostInfo:
    """What a rank publishes about itself when it arrives, so that all can compare."""

    host: str
    process_id: int
    training: str
    """A digest of the recipe that it is about to train."""
    python: str
    torch: str

    @classmethod
    def own(cls, training: str) -> HostInfo:
        """The info of this process."""
        return cls(socket.gethostname(), os.getpid(), training, platform.python_version(), torch.__version__)


def open_store(rank_info: RankInfo, timeout: float) -> TCPStore:
    """Connect to the TCP store of the rendezvous; ProcessMissing if no process serves it."""
    serves = rank_info.is_main and not rank_info.external_store
    try:
        if not serves:
            _wait_for_answer(rank_info, timeout)
        return TCPStore(
            rank_info.address,
            rank_info.port,
            rank_info.world_size,
            is_master=serves,
            timeout=timedelta(seconds=timeout),
            wait_for_workers=False,
            multi_tenant=True,
        )
    except (RuntimeError, ValueError, OSError) as error:
        where = f"{rank_info.address}:{rank_info.port}"
        if serves:
            raise KitError(
                f"process 0 cannot wait for the others at {where}: {_first_line(error)}\n"
                "    MASTER_ADDR has to be this machine as the others see it, and MASTER_PORT a free port"
            ) from error
        raise ProcessMissing(
            f"process 0 is missing: nothing answers at {where} within {timeout:g} s "
            f"(asked by process {rank_info.rank} on {socket.gethostname()})"
        ) from error


def check_in(
    rank_info: RankInfo, store: Store, training: str, timeout: float, say: Callable[[str], None]
) -> list[HostInfo]:
    """Wait until every rank has arrived; ProcessMissing names those that have not."""
    store.set(f"host/{rank_info.rank}", json.dumps(asdict(HostInfo.own(training))))
    began, is_noticed = time.monotonic(), False
    while missing := [rank for rank in range(rank_info.world_size) if not store.check([f"host/{rank}"])]:
        waited = time.monotonic() - began
        if waited > timeout:
            here = [rank for rank in range(rank_info.world_size) if rank not in missing]
            known = ", ".join(f"{rank} on {_host_info(store, rank).host}" for rank in here)
            raise ProcessMissing(
                f"{_named(missing, rank_info)} of {rank_info.world_size} did not arrive within {timeout:g} s\n"
                f"    arrived: process {known}\n"
                "    start the missing ones, or set training.devices and training.nodes; training.timeout waits longer"
            )
        if waited > min(_NOTICE_AFTER, timeout / 2) and not is_noticed:
            say(f"waiting for {_named(missing, rank_info)} of {rank_info.world_size}")
            is_noticed = True
        time.sleep(0.05)
    hosts = [_host_info(store, rank) for rank in range(rank_info.world_size)]
    _compare(hosts)
    return hosts


def connect(rank_info: RankInfo, store: Store, device: torch.device, timeout: float) -> None:
    """Initialise the default process group (NCCL for GPUs, Gloo for CPUs), and check it by an all-reduce."""
    backend = "nccl" if is_gpu(device) else "gloo"
    if is_gpu(device):
        torch.accelerator.set_device_index(device)
    waiting = timedelta(seconds=timeout)
    try:
        distributed.init_process_group(
            backend,
            store=PrefixStore("group", store),
            rank=rank_info.rank,
            world_size=rank_info.world_size,
            timeout=waiting,
            device_id=device if is_gpu(device) else None,
        )
        total = torch.tensor(float(rank_info.rank), device=device)
        distributed.all_reduce(total)
        arrived = float(total.item())
    except (RuntimeError, ValueError) as error:
        raise ProcessMissing(
            f"all {rank_info.world_size} processes are there, but process {rank_info.rank} on "
            f"{socket.gethostname()} cannot exchange numbers with the others within {timeout:g} s: "
            f"{_first_line(error)}\n"
            "    a firewall, or the wrong network: GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME name the one to use"
        ) from error
    wanted = rank_info.world_size * (rank_info.world_size - 1) / 2
    if arrived != wanted:
        raise KitError(f"a sum over all processes is {arrived:g}; wanted {wanted:g}: the network or a device is broken")
    distributed.distributed_c10d._set_pg_timeout(COLLECTIVE_TIMEOUT)


def device_of(rank_info: RankInfo, accelerator: str) -> torch.device:
    """The device of this rank."""
    if accelerator == "cpu" or (accelerator == "auto" and gpu_count() == 0):
        return torch.device("cpu")
    if accelerator == "mps":
        raise KitError("training.accelerator is mps, which computes in one process; write devices: 1")
    found = gpu_count()
    if rank_info.local_rank >= found:
        raise KitError(
            f"process {rank_info.rank} on {socket.gethostname()} wants GPU {rank_info.local_rank}, "
            f"and there are {found}\n"
            "    write fewer training.devices, or accelerator: cpu"
        )
    return gpu_device(rank_info.local_rank)


def oversubscription_warning(rank_info: RankInfo, device: torch.device) -> str | None:
    """A warning where more processes compute on a CPU than it has cores; None where there are enough."""
    cores = os.cpu_count() or 1
    if not is_cpu(device) or rank_info.local_world_size <= cores:
        return None
    return (
        f"warning: {rank_info.local_world_size} processes share the {cores} cores of {socket.gethostname()}, "
        f"and train more slowly than {cores} would; training.devices={cores} is enough here"
    )


def check_alone(accelerator: str) -> None:
    """Check that a training of one process has the accelerator of its recipe; KitError if not."""
    if not has_accelerator(accelerator):
        raise KitError(
            f"training.accelerator is {accelerator}, and {socket.gethostname()} has none that torch can use; "
            f"there is {' and '.join(devices_here())}\n"
            "    write training.accelerator=cpu, or auto, which takes a GPU where there is one"
        )


def _wait_for_answer(rank_info: RankInfo, timeout: float) -> None:
    """Try to connect with a plain socket, because torch's store logs pages for every attempt that fails."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            with socket.create_connection((rank_info.address, rank_info.port), timeout=max(0.1, timeout / 4)):
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _compare(hosts: Sequence[HostInfo]) -> None:
    for name, label in (("training", "recipe"), ("torch", "torch"), ("python", "Python")):
        for rank, info in enumerate(hosts):
            if getattr(info, name) != getattr(hosts[0], name):
                shown = "" if name == "training" else f": {getattr(info, name)}, and {getattr(hosts[0], name)}"
                raise KitError(
                    f"process {rank} on {info.host} has another {label} than process 0 on {hosts[0].host}{shown}\n"
                    "    all processes have to train the same, with the same programs"
                )


def _named(ranks: Sequence[int], rank_info: RankInfo) -> str:
    if rank_info.nodes == 1:
        return f"process {', '.join(map(str, ranks))}"
    return "process " + ", ".join(f"{rank} (node {rank // rank_info.local_world_size})" for rank in ranks)


def _host_info(store: Store, rank: int) -> HostInfo:
    return HostInfo(**json.loads(store.get(f"host/{rank}")))


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


_LONG = timedelta(days=7)
_DONE, _FAILED = "done ", "failed"
_CONNECTION_LOST = re.compile(
    r"connection (was )?(closed|reset|refused|aborted)|broken pipe|timed out|nccl|remote process", re.I
)
"""Matches the error of a collective when another process has died."""


class FailedElsewhere(KitError):
    """Another rank failed and reports why; this one has nothing to add."""


class ProcessGroup:
    """What the ranks of a training agree on outside of collectives, through a store; free for one process alone."""

    def __init__(
        self, rank_info: RankInfo | None = None, store: Store | None = None, watchdog: Watchdog | None = None
    ) -> None:
        self.rank_info = rank_info
        self.watchdog = watchdog
        self._store = store
        self._exchanges = 0

    @property
    def is_main(self) -> bool:
        """Whether this is rank 0, which writes files and messages for all."""
        return self.rank_info is None or self.rank_info.is_main

    def report_progress(self, activity: str) -> None:
        """Report what this rank does now to the watchdog."""
        if self.watchdog is not None:
            self.watchdog.report_progress(activity)

    def broadcast_text(self, make: Callable[[], str]) -> str:
        """A text that rank 0 makes, on all ranks. Collective."""
        if self._store is None:
            return make()
        key = f"shared/{self._next_exchange()}"
        if self.is_main:
            with self._reporting_failure(key):
                text = make()
            self._store.set(key, f"{_DONE}{text}")
            return text
        return self._receive(key)

    def broadcast_folder(self, make: Callable[[], Path]) -> Path:
        """A folder that rank 0 makes, on all ranks; KitError where a node does not see it. Collective."""
        many = self.rank_info is not None and self.rank_info.nodes > 1
        path = Path(self.broadcast_text(lambda: str(make().absolute() if many else make())))
        if not path.is_dir():
            raise KitError(
                f"{path} is not there on {gethostname()}: all nodes have to share the file system of the runs"
            )
        return path

    @contextmanager
    def main_process_first(self) -> Iterator[None]:
        """Rank 0 runs the block first; the others run it after that."""
        if self._store is None:
            yield
            return
        key = f"first/{self._next_exchange()}"
        if not self.is_main:
            self._receive(key)
            yield
            return
        with self._reporting_failure(key):
            yield
        self._store.set(key, _DONE)

    def shutdown(self) -> None:
        """Destroy the process group once all ranks have arrived here; each goes on alone. Collective."""
        if self.watchdog is not None:
            # After a barrier, because a rank that leaves early closes the connections of the others.
            self.watchdog.stop()
            distributed.barrier()
            distributed.destroy_process_group()
            self.watchdog = None
        self._store = None

    def is_same_error_on_main(self, error: str) -> bool:
        """Whether rank 0 fails with the same error, so that no other rank has to report it."""
        if self._store is None:
            return False
        if self.is_main:
            self._store.set("error", error)
            return False
        try:
            self._store.wait(["error"], timedelta(seconds=3))
            return bool(self._store.get("error").decode() == error)
        except RuntimeError:
            return False

    @contextmanager
    def _reporting_failure(self, key: str) -> Iterator[None]:
        """Tell the waiting ranks if rank 0 fails inside."""
        assert self._store is not None
        try:
            yield
        except BaseException:
            self._store.set(key, _FAILED)
            raise

    def _receive(self, key: str) -> str:
        assert self._store is not None
        self._store.wait([key], _LONG)
        text = str(self._store.get(key).decode())
        if text == _FAILED:
            raise FailedElsewhere("process 0 failed, and says why")
        return text.removeprefix(_DONE)

    def _next_exchange(self) -> int:
        self._exchanges += 1
        return self._exchanges


@contextmanager
def rendezvous(training: TrainingSection, recipe: str, say: Callable[[str], None]) -> Iterator[ProcessGroup]:
    """Join the other ranks of a training, if it has any; recipe: the text that has to be the same on all of them."""
    rank_info = RankInfo.from_environment()
    if rank_info is None:
        if training.devices * training.nodes > 1:
            raise KitError(
                f"the recipe is to be trained by {training.devices * training.nodes} processes, and this is one alone\n"
                "    start it with kit train or torchrun, or set training.devices and training.nodes to 1"
            )
        check_alone(training.accelerator)
        yield ProcessGroup()
        return
    timeout = training.timeout
    device = device_of(rank_info, training.accelerator)
    say_once = say if rank_info.is_main else _say_nothing
    if (warning := oversubscription_warning(rank_info, device)) is not None:
        say_once(warning)
    tcp = open_store(rank_info, timeout)
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")  # torchrun may try again, at the same store
    store = PrefixStore(attempt, tcp)
    digest = hashlib.sha256(recipe.encode()).hexdigest()
    hosts = check_in(rank_info, PrefixStore("check", store), digest, timeout, say_once)
    # A connection of its own: a thread that waits at the store must not block the watchdog.
    own = PrefixStore("watchdog", PrefixStore(attempt, tcp.clone()))  # type: ignore[attr-defined]
    watchdog = Watchdog(rank_info, own, timeout, [info.host for info in hosts])
    watchdog.parent = int(os.environ[PARENT]) if PARENT in os.environ else None
    connect(rank_info, store, device, timeout)
    watchdog.start()
    group = ProcessGroup(rank_info, PrefixStore("group", store), watchdog)
    try:
        yield group
    except RuntimeError as error:
        lost = _lost_process(rank_info, watchdog) if _CONNECTION_LOST.search(str(error)) else None
        watchdog.stop()
        if lost is None:
            raise
        raise lost from error
    except KitError as error:
        watchdog.stop()
        if group.is_same_error_on_main(str(error)):
            failure = FailedElsewhere(str(error))
            failure.exit_code = error.exit_code
            raise failure from error
        raise
    except BaseException:
        watchdog.stop()
        raise
    group.shutdown()


def _lost_process(rank_info: RankInfo, watchdog: Watchdog) -> KitError:
    """The error that names a dead rank: it misses its heartbeats within seconds."""
    time.sleep(4 * HEARTBEAT_INTERVAL)
    gone = watchdog.stuck(3 * HEARTBEAT_INTERVAL)
    who = "; ".join(gone) if gone else "another process is gone"
    if not rank_info.is_main and not gone:
        return FailedElsewhere(who)
    return ProcessMissing(f"{who}\n    what was saved is whole; go on with kit resume")


def _say_nothing(text: str) -> None:
    """For ranks other than 0."""
