"""SLURM jobs: the batch script with which srun starts a training on many nodes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kit import KitError, TrainingSection

TERM_SECONDS = 90
"""Seconds before its time limit at which a job gets SIGTERM: time to finish a step and save."""
_TIME = re.compile(r"\d+(-\d+)?(:\d+){0,2}")


@dataclass(frozen=True)
class SlurmJob:
    """A SLURM job; None leaves a choice to the cluster."""

    name: str
    nodes: int
    devices: int
    """Tasks on every node."""
    gpus: bool
    time: str | None = None
    partition: str | None = None
    account: str | None = None
    cpus: int | None = None
    """Processor cores for each task."""
    memory: str | None = None
    """Memory of each node, such as 64G."""

    @classmethod
    def of(cls, name: str, training: TrainingSection, nodes: int | None, gpus_per_node: int | None) -> SlurmJob:
        """The job of a recipe, with what the command line overrides."""
        wants_gpus = training.accelerator != "cpu"
        if gpus_per_node is not None and not wants_gpus:
            raise KitError(
                f"--gpus-per-node {gpus_per_node}, and the recipe has training.accelerator: cpu; "
                "leave --gpus-per-node out, and training.devices decides"
            )
        devices = gpus_per_node or training.devices
        if devices % training.tensor_parallel:
            raise KitError(
                f"{devices} tasks on every node, and the recipe has training.tensor_parallel: "
                f"{training.tensor_parallel} of them share "
                f"each layer; ask for a multiple of {training.tensor_parallel}, or change training.tensor_parallel"
            )
        return cls(name, nodes or training.nodes, devices, wants_gpus)

    def script(self, command: Sequence[str], folder: Path) -> str:
        """The text of the batch script; command: what every task runs; folder: its working directory."""
        if self.time is not None and not _TIME.fullmatch(self.time):
            raise KitError(f"--time {self.time}: wanted minutes, hours:minutes:seconds or days-hours:minutes:seconds")
        asked = {
            "job-name": self.name,
            "nodes": self.nodes,
            "ntasks-per-node": self.devices,
            "gpus-per-node": self.devices if self.gpus else None,
            "cpus-per-task": self.cpus,
            "mem": self.memory,
            "time": self.time,
            "partition": self.partition,
            "account": self.account,
            "signal": f"TERM@{TERM_SECONDS}",
            "output": "%x-%j.log",
        }
        lines = ["#!/bin/bash"]
        lines += [f"#SBATCH --{name}={value}" for name, value in asked.items() if value is not None]
        quoted = " ".join(map(shlex.quote, command))
        return "\n".join([*lines, "", *_BODY, f"cd {shlex.quote(str(folder))}", f"{_RUN} {quoted}", ""])


_BODY = (
    "set -euo pipefail",
    "# The first process waits for the others on the first of the nodes, at a port that depends on the job.",
    'MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)',
    "MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))",
    "export MASTER_ADDR MASTER_PORT",
    "export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1}",
    "export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-1}  # srun does not take it from sbatch by itself",
    "export TORCH_CPP_LOG_LEVEL=ERROR",
    "# Before its time is up, or when it is preempted, the job saves and ends with 143; kit resume goes on.",
)
_RUN = "exec srun --kill-on-bad-exit=1"
