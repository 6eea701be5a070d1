"""What this machine has to compute on, and what is said where a device was asked for that is not there."""

from __future__ import annotations

import socket

import torch

from kit.errors import KitError


def devices_here() -> list[str]:
    """The devices of this machine as torch calls them, the CPU first."""
    found = torch.accelerator.current_accelerator(check_available=True)
    if found is None:
        return ["cpu"]
    return ["cpu", *(f"{found.type}:{number}" for number in range(torch.accelerator.device_count()))]


def device_called(name: str | None) -> torch.device:
    """The device of that name; left out, a GPU where there is one. KitError if there is none of that name here."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    here = devices_here()
    there = f"there is {' and '.join(here)} on {socket.gethostname()}"
    instead = "    name one of these, or none, and the best is taken"
    try:
        device = torch.device(name)
    except (RuntimeError, ValueError):
        raise KitError(f"the device {name!r} is none that torch knows; {there}\n{instead}") from None
    if f"{device.type}:{device.index or 0}" not in [place if ":" in place else f"{place}:0" for place in here]:
        raise KitError(f"the device {name!r} is not here; {there}\n{instead}")
    return device


def has_accelerator(name: str) -> bool:
    """Whether this machine has what a recipe calls gpu or mps; a CPU there always is, and auto takes what there is."""
    cuda, mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    return {"gpu": cuda or mps, "mps": mps}.get(name, True)
