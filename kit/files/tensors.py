"""Safetensors files: written as a stream and synced; read with the library, which executes nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from kit.files.atomic import CheckpointError, DamagedCheckpoint, atomic_replace, open_synced
from kit.files.strict_reading import open_regular

DTYPES: dict[torch.dtype, str] = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.complex64: "C64",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint64: "U64",
    torch.uint32: "U32",
    torch.uint16: "U16",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
"""The names of dtypes in a safetensors file."""


def storable(tensor: Tensor) -> str | None:
    """Why a tensor cannot be stored, in words; None if it can."""
    if type(tensor) not in (Tensor, torch.nn.Parameter):
        return f"is a {type(tensor).__name__}, a plain tensor is wanted"
    if tensor.layout != torch.strided:
        return f"has the layout {tensor.layout}, a dense tensor is wanted"
    if tensor.is_meta:
        return "is on the meta device and has no values"
    if tensor.dtype not in DTYPES:
        return f"is of {tensor.dtype}, which a safetensors file cannot hold"
    return None


def same_memory(tensor: Tensor) -> tuple[Any, ...]:
    """A key that is the same for two names of one tensor (tied weights), and different for two tensors."""
    if tensor.numel() == 0:
        return (id(tensor),)
    return (tensor.data_ptr(), tensor.device, tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.is_conj())


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write a new safetensors file and sync it; a tensor with several names is stored once.

    Written here and not by the library, which holds all tensors twice, does not sync, and refuses tied weights.
    """
    first: dict[tuple[Any, ...], str] = {}
    tied: dict[str, str] = {}
    for name, tensor in tensors.items():
        if objection := storable(tensor):
            raise CheckpointError(f"cannot store {name!r} in {path.name}: it {objection}.")
        if name == "__metadata__":
            raise CheckpointError(
                f"cannot store a tensor called {name!r}: the safetensors format keeps that name for itself."
            )
        owner = first.setdefault(same_memory(tensor), name)
        if owner != name:
            tied[name] = owner
    # The widest numbers first, so that every tensor starts at a multiple of its own number's size.
    order = sorted(first.values(), key=lambda name: (-tensors[name].element_size(), name))
    header: dict[str, Any] = {"__metadata__": {"format": "pt", **({"tied": json.dumps(tied)} if tied else {})}}
    end = 0
    for name in order:
        start, end = end, end + tensors[name].numel() * tensors[name].element_size()
        header[name] = {
            "dtype": DTYPES[tensors[name].dtype], "shape": list(tensors[name].shape), "data_offsets": [start, end]
        }  # fmt: skip
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    with open_synced(path) as file:
        file.write(len(head).to_bytes(8, "little"))
        file.write(head)
        for name in order:
            plain = tensors[name].detach().resolve_conj().resolve_neg().cpu().contiguous()
            file.write(plain.reshape(-1).view(torch.uint8).numpy().data)


def replace_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write a safetensors file atomically, replacing one that is there."""
    with atomic_replace(path) as temporary:
        write_tensors(temporary, tensors)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a safetensors file, on the CPU, by name; names of one tensor get the same tensor."""
    try:
        open_regular(path).close()  # the library would wait for a named pipe
        with safe_open(path, framework="pt", device="cpu") as file:
            # Copies: the library maps the file, and a state that is trained on must outlive it, aligned as any other.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
            tied = json.loads((file.metadata() or {}).get("tied", "{}"))
        return tensors | {name: tensors[owner] for name, owner in tied.items()}
    except (SafetensorError, OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise DamagedCheckpoint(f"{path.name} cannot be read as safetensors ({error})") from error
