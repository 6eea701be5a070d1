"""What a process does before torch is imported where torchrun, SLURM or the kit started it as one of many."""

from __future__ import annotations

import os

_STARTED = ("LOCAL_RANK", "SLURM_PROCID")
"""What torchrun and the kit, and what srun, tell every process that they start."""


def hush_torch() -> None:
    """Keep each of the processes from warning that no parameter was left out of a step, which is what one hopes for.

    torch reads the variable once, when it is loaded, so nothing that is done later helps.
    """
    if any(name in os.environ for name in _STARTED):
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
