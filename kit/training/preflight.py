"""Before anything long begins: are all processes there, do they train the same, and can they talk to each other?"""

from __future__ import annotations

import json
import os
import platform
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta

import torch
from torch import distributed
from torch.distributed import PrefixStore, Store, TCPStore  # type: ignore[attr-defined]

from kit.devices import devices_here, has_accelerator
from kit.errors import KitError
from kit.training.membership import Member, ProcessMissing

PATIENT = timedelta(minutes=30)
"""How long an exchange may take; a process that is stuck is found much earlier, by `watch`."""
_TOLD = 10.0
"""Seconds after which a person is told who is waited for."""


@dataclass(frozen=True)
class Card:
    """What a process says of itself when it arrives."""

    host: str
    process_id: int
    training: str
    """A digest of what it is about to train."""
    python: str
    torch: str

    @classmethod
    def own(cls, training: str) -> Card:
        """The card of this process."""
        return cls(socket.gethostname(), os.getpid(), training, platform.python_version(), torch.__version__)


def open_store(member: Member, timeout: float) -> TCPStore:
    """The store that all processes meet at; ProcessMissing if nobody keeps it."""
    keeps = member.first and not member.store_elsewhere
    try:
        if not keeps:
            _wait_for_answer(member, timeout)
        return TCPStore(
            member.address,
            member.port,
            member.size,
            is_master=keeps,
            timeout=timedelta(seconds=timeout),
            wait_for_workers=False,
            multi_tenant=True,
        )
    except (RuntimeError, ValueError, OSError) as error:
        where = f"{member.address}:{member.port}"
        if keeps:
            raise KitError(
                f"process 0 cannot wait for the others at {where}: {_first_line(error)}\n"
                "    MASTER_ADDR has to be this machine as the others see it, and MASTER_PORT a free port"
            ) from error
        raise ProcessMissing(
            f"process 0 is missing: nothing answers at {where} within {timeout:g} s "
            f"(asked by process {member.rank} on {socket.gethostname()})"
        ) from error


def check_in(member: Member, store: Store, training: str, timeout: float, say: Callable[[str], None]) -> list[Card]:
    """Wait until every process has arrived; ProcessMissing names those that have not."""
    store.set(f"card/{member.rank}", json.dumps(asdict(Card.own(training))))
    began, told = time.monotonic(), False
    while missing := [rank for rank in range(member.size) if not store.check([f"card/{rank}"])]:
        waited = time.monotonic() - began
        if waited > timeout:
            here = [rank for rank in range(member.size) if rank not in missing]
            known = ", ".join(f"{rank} on {_card(store, rank).host}" for rank in here)
            raise ProcessMissing(
                f"{_named(missing, member)} of {member.size} did not arrive within {timeout:g} s\n"
                f"    arrived: process {known}\n"
                "    start the missing ones, or set training.devices and training.nodes; training.timeout waits longer"
            )
        if waited > min(_TOLD, timeout / 2) and not told:
            say(f"waiting for {_named(missing, member)} of {member.size}")
            told = True
        time.sleep(0.05)
    cards = [_card(store, rank) for rank in range(member.size)]
    _compare(cards)
    return cards


def connect(member: Member, store: Store, device: torch.device, timeout: float) -> None:
    """Open the ways between the processes, and try them."""
    if device.type == "cuda":
        torch.cuda.set_device(device)
    backend = "nccl" if device.type == "cuda" else "gloo"
    waiting = timedelta(seconds=timeout)
    try:
        distributed.init_process_group(
            backend,
            store=PrefixStore("group", store),
            rank=member.rank,
            world_size=member.size,
            timeout=waiting,
            device_id=device if device.type == "cuda" else None,
        )
        total = torch.tensor(float(member.rank), device=device)
        distributed.all_reduce(total)
        arrived = float(total.item())
    except (RuntimeError, ValueError) as error:
        raise ProcessMissing(
            f"all {member.size} processes are there, but process {member.rank} on {socket.gethostname()} cannot "
            f"exchange numbers with the others within {timeout:g} s: {_first_line(error)}\n"
            "    a firewall, or the wrong network: GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME name the one to use"
        ) from error
    wanted = member.size * (member.size - 1) / 2
    if arrived != wanted:
        raise KitError(f"a sum over all processes is {arrived:g}; wanted {wanted:g}: the network or a device is broken")
    distributed.distributed_c10d._set_pg_timeout(PATIENT)


def device_of(member: Member, accelerator: str) -> torch.device:
    """What this process computes on."""
    if accelerator == "cpu" or (accelerator == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if accelerator == "mps":
        raise KitError("training.accelerator is mps, which computes in one process; write devices: 1")
    found = torch.cuda.device_count()
    if member.local_rank >= found:
        raise KitError(
            f"process {member.rank} on {socket.gethostname()} wants GPU {member.local_rank}, and there are {found}\n"
            "    write fewer training.devices, or accelerator: cpu"
        )
    return torch.device("cuda", member.local_rank)


def crowding(member: Member, device: torch.device) -> str | None:
    """What a person is told where more processes compute on a CPU than it has cores; None where there are enough."""
    cores = os.cpu_count() or 1
    if device.type != "cpu" or member.local_size <= cores:
        return None
    return (
        f"warning: {member.local_size} processes share the {cores} cores of {socket.gethostname()}, "
        f"and train more slowly than {cores} would; training.devices={cores} is enough here"
    )


def check_alone(accelerator: str) -> None:
    """Whether a process that trains alone has what the recipe wants; KitError if not."""
    if not has_accelerator(accelerator):
        raise KitError(
            f"training.accelerator is {accelerator}, and {socket.gethostname()} has none that torch can use; "
            f"there is {' and '.join(devices_here())}\n"
            "    write training.accelerator=cpu, or auto, which takes a GPU where there is one"
        )


def _wait_for_answer(member: Member, timeout: float) -> None:
    """Knock with a plain socket, because torch's store writes pages about every knock that is not answered."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            with socket.create_connection((member.address, member.port), timeout=max(0.1, timeout / 4)):
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _compare(cards: Sequence[Card]) -> None:
    for name, label in (("training", "recipe"), ("torch", "torch"), ("python", "Python")):
        for rank, card in enumerate(cards):
            if getattr(card, name) != getattr(cards[0], name):
                shown = "" if name == "training" else f": {getattr(card, name)}, and {getattr(cards[0], name)}"
                raise KitError(
                    f"process {rank} on {card.host} has another {label} than process 0 on {cards[0].host}{shown}\n"
                    "    all processes have to train the same, with the same programs"
                )


def _named(ranks: Sequence[int], member: Member) -> str:
    if member.nodes == 1:
        return f"process {', '.join(map(str, ranks))}"
    return "process " + ", ".join(f"{rank} (node {rank // member.local_size})" for rank in ranks)


def _card(store: Store, rank: int) -> Card:
    return Card(**json.loads(store.get(f"card/{rank}")))


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
