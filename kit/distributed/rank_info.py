"""RankInfo: the rank of this process, from the environment that `kit train`, torchrun or SLURM starts it with."""

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
"""The first of the rendezvous ports of SLURM jobs, and their number."""


class ProcessMissing(KitError):
    """A rank has not arrived, has died, or is stuck."""

    exit_code = 6


@dataclass(frozen=True)
class RankInfo:
    """One of `world_size` ranks; they meet at a store at `address` and `port`."""

    rank: int
    world_size: int
    local_rank: int
    """The rank among the processes of its node."""
    local_world_size: int
    """The number of processes on every node."""
    address: str
    port: int
    external_store: bool = False
    """Whether the launcher serves the store; rank 0 does otherwise."""

    @property
    def is_main(self) -> bool:
        """Whether this is rank 0, which writes files and messages for all."""
        return self.rank == 0

    @property
    def node(self) -> int:
        """The rank of its node."""
        return self.rank // self.local_world_size

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return self.world_size // self.local_world_size

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Self | None:
        """The rank of this process; None for one that trains alone."""
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
        if found.world_size % found.local_world_size or not 0 <= found.rank < found.world_size:
            raise KitError(
                f"process {found.rank} of {found.world_size}, with {found.local_world_size} on this machine: "
                "wanted the same number of processes on every machine"
            )
        return found if found.world_size > 1 else None

    @classmethod
    def _of_slurm(cls, known: Mapping[str, str]) -> Self:
        size, nodes = _number(known, "SLURM_NTASKS"), _number(known, "SLURM_NNODES")
        hosts = known.get("SLURM_STEP_NODELIST") or known.get("SLURM_JOB_NODELIST", "")
        address = known.get("MASTER_ADDR") or first_host(hosts) or "127.0.0.1"
        job = int(re.sub(r"\D", "", known.get("SLURM_JOB_ID", "")) or 0)
        port = _number(known, "MASTER_PORT") if "MASTER_PORT" in known else _PORTS[0] + job % _PORTS[1]
        return cls(_number(known, "SLURM_PROCID"), size, _number(known, "SLURM_LOCALID"), size // nodes, address, port)

    def environment(self) -> dict[str, str]:
        """What `from_environment` reads, for a process that is about to be started."""
        values = (self.rank, self.world_size, self.local_rank, self.local_world_size, self.address, self.port)
        known = {name: str(value) for name, value in zip(_TORCHRUN, values, strict=True)}
        return known | {_ELSEWHERE: str(self.external_store)}


def with_started_devices(recipe: Recipe, rank_info: RankInfo) -> Recipe:
    """The recipe with the devices and nodes that were started, which the launcher decides."""
    assert recipe.training is not None
    tensor = recipe.training.tensor_parallel
    if rank_info.local_world_size % tensor:
        raise KitError(
            f"training.tensor_parallel is {tensor}: so many processes of a machine share each layer, and "
            f"{rank_info.local_world_size} were started on every machine\n"
            f"    start a multiple of {tensor} on each, or set training.tensor_parallel to 1"
        )
    training = recipe.training.model_copy(update={"devices": rank_info.local_world_size, "nodes": rank_info.nodes})
    return recipe.model_copy(update={"training": training})


def first_host(hosts: str) -> str:
    """The first host of a SLURM node list: node03 of node[03-05,07],login1."""
    match = re.match(r"([^,\[]+)(?:\[(\w+)[^\]]*\])?", hosts)
    return "" if match is None else match[1] + (match[2] or "")


def _number(known: Mapping[str, str], name: str) -> int:
    try:
        return int(known[name])
    except ValueError:
        raise KitError(f"the environment variable {name} is {known[name]!r}; wanted a whole number") from None
