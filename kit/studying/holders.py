"""Names of processes that others of the same machine can look for: by host, number and when it began."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path


def this_process() -> str:
    """What to write down of this process."""
    return f"{socket.gethostname()} {os.getpid()} {_began(os.getpid())}"


def is_gone(holder: str) -> bool:
    """Whether a process of this machine has ended; of other machines nothing is known, and it counts as there."""
    host, _, rest = holder.partition(" ")
    number, _, began = rest.partition(" ")
    if host != socket.gethostname() or not number.isdigit():
        return False
    found = _began(int(number))
    # Numbers are used again, in a container that is started anew even at once, so the beginning must be the same.
    return found is None or (bool(began) and began != found)


def _began(number: int) -> str | None:
    """When a process began, in ticks of the kernel, or "there" where that is not told; None where there is none."""
    if Path("/proc/self/stat").exists():
        try:
            # The name may hold spaces and brackets; what follows its last bracket does not.
            return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[19]
        except OSError:
            return None
    if sys.platform != "win32":  # where signal 0 would end the process
        try:
            os.kill(number, 0)
        except ProcessLookupError:
            return None
        except PermissionError:
            pass
    return "there"
