"""Devices: those of this machine, errors for those that it lacks, and on which one a tensor is."""

from __future__ import annotations

import socket
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from kit.errors import KitError
from kit.kernels.allocator import tune_malloc


def is_cpu(where: Tensor | torch.device) -> bool:
    """Whether a device, or that of a tensor, is the CPU: values can be read there without synchronization."""
    return (where.device if isinstance(where, Tensor) else where).type == "cpu"


def is_gpu(where: Tensor | torch.device) -> bool:
    """Whether a device, or that of a tensor, is a CUDA or ROCm GPU: batches are pinned for it, and NCCL serves it."""
    return (where.device if isinstance(where, Tensor) else where).type == "cuda"


def devices_here() -> list[str]:
    """Returns the devices of this machine by torch's names, the CPU first."""
    found = torch.accelerator.current_accelerator(check_available=True)
    if found is None:
        return ["cpu"]
    return ["cpu", *(f"{found.type}:{number}" for number in range(torch.accelerator.device_count()))]


def device_called(name: str | None) -> torch.device:
    """Returns the device of that name, by default a GPU if there is one; raises KitError if it is not here."""
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
    """Whether this machine has the accelerator that a recipe calls gpu or mps; true for cpu and auto."""
    cuda, mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    return {"gpu": cuda or mps, "mps": mps}.get(name, True)


def prepare_process() -> None:
    """Tunes malloc for training, and flushes denormal numbers, which slow a CPU down many times, to zero."""
    torch.set_flush_denormal(True)
    tune_malloc()


def without_autocast(like: Tensor) -> AbstractContextManager[object]:
    """A context without autocast on the device of `like`; also for devices that have no autocast."""
    device = like.device.type
    return torch.autocast(device, enabled=False) if torch.amp.is_autocast_available(device) else nullcontext()


def device_of_accelerator(accelerator: str) -> torch.device:
    """The device of one process with a recipe's `accelerator`: a GPU or MPS where there is one, else the CPU."""
    if accelerator in ("auto", "gpu") and torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if accelerator in ("gpu", "mps") and has_accelerator(accelerator) else "cpu")


def collective_device() -> torch.device:
    """The device of tensors that the default process group exchanges."""
    return torch.device("cuda" if torch.distributed.get_backend() == "nccl" else "cpu")


def synchronize(device: torch.device) -> None:
    """Waits until a GPU has finished its queue, so that a clock measures computation; a CPU has none."""
    if is_gpu(device):
        torch.cuda.synchronize()


def gpu_device(index: int) -> torch.device:
    """The CUDA or ROCm GPU of this machine with that index."""
    return torch.device("cuda", index)


def gpu_count() -> int:
    """The number of CUDA or ROCm GPUs of this machine."""
    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def peak_gpu_memory() -> int:
    """The most bytes that tensors of this process have taken on its GPU."""
    return int(torch.cuda.max_memory_allocated())


def mixed_precision(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """Autocast as in training: matrix products in half precision, weights and sums in float32."""
    if precision == "float32":
        return nullcontext()
    # A CPU has bfloat16 only.
    half = torch.float16 if precision == "float16" and device.type != "cpu" else torch.bfloat16
    return torch.autocast(device.type, dtype=half, cache_enabled=False)


def device_title(device: torch.device) -> str:
    """The device as a person reads it: the GPU's name, MPS, or a number of CPU threads."""
    if is_gpu(device):
        return torch.cuda.get_device_name()
    threads = torch.get_num_threads()
    return "MPS" if device.type == "mps" else f"{threads} CPU thread{'s' if threads > 1 else ''}"
