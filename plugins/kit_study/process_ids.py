"""Process identifiers that stay unique when process ids are reused: host, process id and start time."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path


def process_id() -> str:
    """Returns the identifier of this process."""
    return f"{socket.gethostname()} {os.getpid()} {_start_time(os.getpid())}"


def has_ended(holder: str) -> bool:
    """Whether a process of this machine has ended; a process of another machine counts as running."""
    host, _, rest = holder.partition(" ")
    number, _, began = rest.partition(" ")
    if host != socket.gethostname() or not number.isdigit():
        return False
    found = _start_time(int(number))
    # Process ids are reused, immediately in a restarted container, so the start time must match.
    return found is None or (bool(began) and began != found)


def _start_time(number: int) -> str | None:
    """Returns the start time of a process in clock ticks, "there" if it is unknown, None without such a process."""
    if Path("/proc/self/stat").exists():
        try:
            # The process name may contain spaces and brackets, so fields are read after the last bracket.
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
