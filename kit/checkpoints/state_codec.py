"""State codec: nested Python state to JSON and named tensors and back, exactly, without pickle.

JSON has no tuples, bytes, infinities or keys that are numbers: these are objects with one key, which starts with a $.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from torch import Tensor

from kit.checkpoints.manifest import Shard, shard_of
from kit.files.atomic import CheckpointError, DamagedCheckpoint
from kit.files.tensors import same_memory, storable

DEEPEST = 100
"""Levels of nesting that are stored; deeper state is a mistake, such as a list that holds itself."""


@dataclass
class EncodedState:
    """EncodedState state: JSON for the structure, and tensors by name."""

    structure: Any = None
    tensors: dict[str, Tensor] = field(default_factory=dict)
    shards: dict[str, Shard] = field(default_factory=dict)
    """Local shards of DTensors."""
    names: dict[tuple[Any, ...], str] = field(default_factory=dict, repr=False)


def encode(tree: Any) -> EncodedState:
    """Encode None, bool, int, float, str, bytes, list, tuple, dict and tensors; CheckpointError for anything else."""
    encoded = EncodedState()
    encoded.structure = _encode(tree, (), encoded)
    return encoded


def decode(structure: Any, tensors: Mapping[str, Tensor], name: str = "a structure") -> Any:
    """Decode what `encode` returned; DamagedCheckpoint where structure and tensors do not match."""
    unused = set(tensors)

    def look_up(name: str) -> Tensor:
        unused.discard(name)
        return tensors[name]

    try:
        state = _decode(structure, look_up)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError, binascii.Error) as error:
        raise DamagedCheckpoint(f"{name} is not what this kit writes ({type(error).__name__}: {error})") from error
    if unused:
        raise DamagedCheckpoint(f"nothing in {name} stands for the tensor {min(unused)!r}")
    return state


def _encode(item: Any, path: tuple[Any, ...], encoded: EncodedState) -> Any:
    if len(path) > DEEPEST:
        _refuse(path, f"nested more than {DEEPEST} deep (does it hold itself?)")
    kind = type(item)
    if item is None or kind in (bool, int, str):
        return item
    if kind is float:
        return item if math.isfinite(item) else {"$float": repr(item)}
    if kind is bytes:
        return {"$bytes": base64.b64encode(item).decode()}
    if kind is list:
        return [_encode(value, (*path, place), encoded) for place, value in enumerate(item)]
    if kind is tuple:
        return {"$tuple": [_encode(value, (*path, place), encoded) for place, value in enumerate(item)]}
    if kind in (dict, OrderedDict):
        return _encode_mapping(item, path, encoded)
    if isinstance(item, Tensor):
        return _encode_tensor(item, path, encoded)
    _refuse(path, f"of type {kind.__module__}.{kind.__qualname__}")


def _encode_mapping(item: Mapping[Any, Any], path: tuple[Any, ...], encoded: EncodedState) -> Any:
    if type(item) is dict and all(type(key) is str and not key.startswith("$") for key in item):
        return {key: _encode(value, (*path, key), encoded) for key, value in item.items()}
    pairs = []
    for key, value in item.items():
        if isinstance(key, Tensor):
            _refuse((*path, "<key>"), "a tensor that is a key")
        pairs.append([_encode(key, (*path, "<key>"), encoded), _encode(value, (*path, key), encoded)])
    return {"$ordered" if type(item) is OrderedDict else "$dict": pairs}


def _encode_tensor(item: Tensor, path: tuple[Any, ...], encoded: EncodedState) -> Any:
    name = "/".join(str(step) for step in path) or "tensor"
    while name in encoded.tensors or name in encoded.shards:
        name += "'"  # the keys 0 and "0" of one dict would share a name
    if shard := shard_of(item):
        encoded.shards[name] = shard
        return {"$tensor": name}
    if objection := storable(item):
        _refuse(path, f"a tensor that {objection}")
    known = encoded.names.setdefault(same_memory(item), name)
    if known == name:
        encoded.tensors[name] = item
    return {"$tensor": known}


def _decode(item: Any, look_up: Callable[[str], Tensor]) -> Any:
    if isinstance(item, list):
        return [_decode(value, look_up) for value in item]
    if not isinstance(item, dict):
        return item
    tag = next((key for key in item if key.startswith("$")), None)
    if tag is None:
        return {key: _decode(value, look_up) for key, value in item.items()}
    if len(item) != 1:
        raise ValueError(f"{tag} among other keys")
    value = item[tag]
    match tag:
        case "$tensor":
            return look_up(value)
        case "$tuple":
            return tuple(_decode(list(value), look_up))
        case "$float":
            return float(value)
        case "$bytes":
            return base64.b64decode(value, validate=True)
        case "$dict":
            pairs = {_decode(key, look_up): _decode(held, look_up) for key, held in value}
            if len(pairs) == len(value):
                return pairs
        case "$ordered":
            return OrderedDict((_decode(key, look_up), _decode(held, look_up)) for key, held in value)
    raise ValueError(f"unknown tag {tag}, or a key twice")


def _refuse(path: tuple[Any, ...], found: str) -> NoReturn:
    where = "".join(f"[{step!r}]" for step in path[:12]) + ("[...]" if len(path) > 12 else "")
    raise CheckpointError(
        f"cannot store the state at state{where}: found something {found}; "
        "wanted None, bool, int, float, str, bytes, list, tuple, dict or tensors."
    )
