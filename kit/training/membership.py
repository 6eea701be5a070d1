"""Which of the processes that train together this one is, as whatever started it says: `kit`, torchrun or SLURM."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from kit.errors import KitError

if TYPE_CHECKING:
    from kit.recipe.sections import Recipe

_TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_ELSEWHERE = "TORCHELASTIC_USE_AGENT_STORE"
_SLURM = ("SLURM_STEP_ID", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "SLURM_NNODES")
_PORTS = (20_000, 10_000)
"""Where the ports begin that jobs of SLURM meet at, and how many there are."""


class ProcessMissing(KitError):
    """A process that should train with the others is not there, or does not move any more."""

    exit_code = 6


@dataclass(frozen=True)
class Member:
    """One of `size` processes; process 0 is the first, and waits for the others at `address`."""

    rank: int
    size: int
    local_rank: int
    """Its number on its own machine."""
    local_size: int
    """How many there are on every machine."""
    address: str
    port: int
    store_elsewhere: bool = False
    """Whether whoever started the processes keeps the store that they meet at; the first process does otherwise."""

    @property
    def first(self) -> bool:
        """Whether this is the one that writes and speaks for all."""
        return self.rank == 0

    @property
    def node(self) -> int:
        """The number of its machine."""
        return self.rank // self.local_size

    @property
    def nodes(self) -> int:
        """How many machines there are."""
        return self.size // self.local_size

    @classmethod
    def found(cls, environment: Mapping[str, str] | None = None) -> Self | None:
        """What the environment says of this process; None for one that nobody started as one of many."""
        known = os.environ if environment is None else environment
        if all(name in known for name in _TORCHRUN):
            rank, size, local_rank, local_size = (_number(known, name) for name in _TORCHRUN[:4])
            elsewhere = known.get(_ELSEWHERE, "").lower() == "true"
            found = cls(
                rank, size, local_rank, local_size, known["MASTER_ADDR"], _number(known, "MASTER_PORT"), elsewhere
            )
        elif all(name in known for name in _SLURM):
            found = cls._of_slurm(known)
        else:
            return None
        if found.size % found.local_size or not 0 <= found.rank < found.size:
            raise KitError(
                f"process {found.rank} of {found.size}, with {found.local_size} on this machine: wanted the same "
                "number of processes on every machine"
            )
        return found if found.size > 1 else None

    @classmethod
    def _of_slurm(cls, known: Mapping[str, str]) -> Self:
        size, nodes = _number(known, "SLURM_NTASKS"), _number(known, "SLURM_NNODES")
        hosts = known.get("SLURM_STEP_NODELIST") or known.get("SLURM_JOB_NODELIST", "")
        address = known.get("MASTER_ADDR") or first_host(hosts) or "127.0.0.1"
        job = int(re.sub(r"\D", "", known.get("SLURM_JOB_ID", "")) or 0)
        port = _number(known, "MASTER_PORT") if "MASTER_PORT" in known else _PORTS[0] + job % _PORTS[1]
        return cls(_number(known, "SLURM_PROCID"), size, _number(known, "SLURM_LOCALID"), size // nodes, address, port)

    def environment(self) -> dict[str, str]:
        """What `found` reads, for a process that is about to be started."""
        values = (self.rank, self.size, self.local_rank, self.local_size, self.address, self.port)
        known = {name: str(value) for name, value in zip(_TORCHRUN, values, strict=True)}
        return known | {_ELSEWHERE: str(self.store_elsewhere)}


def as_started(recipe: Recipe, member: Member) -> Recipe:
    """The recipe with the devices and nodes that there are: whoever starts the processes decides how many."""
    assert recipe.training is not None
    tensor = recipe.training.tensor
    if member.local_size % tensor:
        raise KitError(
            f"training.tensor is {tensor}: so many processes of a machine share each layer, and {member.local_size} "
            f"were started on every machine\n    start a multiple of {tensor} on each, or set training.tensor to 1"
        )
    training = recipe.training.model_copy(update={"devices": member.local_size, "nodes": member.nodes})
    return recipe.model_copy(update={"training": training})


def first_host(hosts: str) -> str:
    """The first of the hosts in SLURM's way of writing many: node[03-05,07],login1 begins with node03."""
    match = re.match(r"([^,\[]+)(?:\[(\w+)[^\]]*\])?", hosts)
    return "" if match is None else match[1] + (match[2] or "")


def _number(known: Mapping[str, str], name: str) -> int:
    try:
        return int(known[name])
    except ValueError:
        raise KitError(f"the environment variable {name} is {known[name]!r}; wanted a whole number") from None
