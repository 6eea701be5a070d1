"""Tensors of which every process holds a piece: each stores its own with its place, and loading puts them together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from kit.runs.damage import DamagedCheckpoint


@dataclass(frozen=True)
class Shard:
    """A piece of a tensor and where in the whole it sits."""

    local: Tensor
    shape: tuple[int, ...]
    """The shape of the whole."""
    offset: tuple[int, ...]
    """The first index of the piece, along every axis of the whole."""


def shard_of(tensor: Tensor) -> Shard | None:
    """The piece that this process holds of a distributed tensor; None for an ordinary tensor."""
    if type(tensor) in (Tensor, torch.nn.Parameter):
        return None
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    if not isinstance(tensor, DTensor):
        return None
    # The function that torch's own distributed checkpoints use; it knows uneven pieces and meshes of several axes.
    _, offset = compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, tensor.placements)
    return Shard(tensor.to_local().detach(), tuple(tensor.shape), tuple(offset))


def assemble(name: str, shards: Iterable[Shard]) -> Tensor:
    """The whole tensor from its pieces; DamagedCheckpoint if they leave a gap or do not belong together."""
    pieces = list(shards)
    shape = pieces[0].shape
    dtype = pieces[0].local.dtype
    whole = torch.empty(shape, dtype=dtype)
    placed: set[tuple[tuple[int, ...], tuple[int, ...]]] = set()
    for piece in pieces:
        if piece.shape != shape or piece.local.dtype != dtype:
            raise DamagedCheckpoint(f"the pieces of {name!r} are of different tensors")
        if piece.local.numel() == 0:
            continue
        size = tuple(piece.local.shape)
        if any(start + length > full for start, length, full in zip(piece.offset, size, shape, strict=True)):
            raise DamagedCheckpoint(f"a piece of {name!r} reaches past the whole")
        place = tuple(slice(start, start + length) for start, length in zip(piece.offset, size, strict=True))
        whole[place] = piece.local
        placed.add((piece.offset, size))
    covered = sum(torch.Size(size).numel() for _, size in placed)
    if covered != whole.numel():
        raise DamagedCheckpoint(f"the pieces of {name!r} hold {covered} of its {whole.numel()} numbers")
    return whole
