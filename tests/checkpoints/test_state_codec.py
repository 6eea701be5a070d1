"""State goes through JSON and safetensors and comes back the same, or is refused with its place."""

from __future__ import annotations

import json
import math
import random
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from kit.checkpoints.state_codec import decode, encode
from kit.files.atomic import CheckpointError, DamagedCheckpoint
from kit.files.tensors import DTYPES, read_tensors, write_tensors


def there_and_back(tree: Any, folder: Path) -> Any:
    encoded = encode(tree)
    target = folder / f"{random.getrandbits(64)}.safetensors"
    write_tensors(target, encoded.tensors)
    return decode(json.loads(json.dumps(encoded.structure, allow_nan=False)), read_tensors(target))


def same(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    if isinstance(left, torch.Tensor):
        return left.dtype == right.dtype and left.shape == right.shape and torch.equal(left, right)
    if isinstance(left, float):
        return (math.isnan(left) and math.isnan(right)) or (
            left == right and math.copysign(1, left) == math.copysign(1, right)
        )
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary(max_size=8)
    | st.lists(st.integers(-5, 5), max_size=4).map(torch.tensor)
)
KEYS = (
    st.text(max_size=4)
    | st.integers(-3, 3)
    | st.sampled_from(["$tensor", "$dict", "a/b", ""])
    | st.tuples(st.integers())
)
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(KEYS, inner, max_size=3)
        | st.dictionaries(KEYS, inner, max_size=3).map(OrderedDict)
    ),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(TREES)
def test_any_tree_comes_back_with_its_types(tmp_path_factory: pytest.TempPathFactory, tree: Any) -> None:
    assert same(there_and_back(tree, tmp_path_factory.mktemp("tree")), tree)


def test_random_generators_come_back(tmp_path: Path) -> None:
    state = {"python": random.getstate(), "torch": torch.get_rng_state()}
    expected = random.random(), torch.rand(3)
    loaded = there_and_back(state, tmp_path)
    random.setstate(loaded["python"])
    torch.set_rng_state(loaded["torch"])
    assert random.random() == expected[0]
    assert torch.equal(torch.rand(3), expected[1])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_number_format_is_stored_as_the_library_reads_it(tmp_path: Path, dtype: torch.dtype) -> None:
    original = torch.arange(24).reshape(2, 3, 4).to(dtype)
    tensors = {"a": original, "byte": torch.ones(3, dtype=torch.uint8), "none": original[:0], "one": original[0, 0, 1]}
    write_tensors(tmp_path / "t.safetensors", tensors)
    for loaded in (read_tensors(tmp_path / "t.safetensors"), load_file(tmp_path / "t.safetensors")):
        for name, tensor in tensors.items():
            assert loaded[name].dtype == tensor.dtype and loaded[name].shape == tensor.shape
            assert torch.equal(loaded[name].reshape(-1).view(torch.uint8), tensor.clone().reshape(-1).view(torch.uint8))


def test_views_and_transposed_tensors_keep_their_values(tmp_path: Path) -> None:
    whole = torch.randn(4, 6)
    loaded = there_and_back([whole, whole.T, whole[1:3], whole[:, ::2]], tmp_path)
    assert same(loaded, [whole, whole.T, whole[1:3], whole[:, ::2]])


def test_tied_tensors_are_stored_once_and_stay_tied(tmp_path: Path) -> None:
    table = torch.randn(1000, 8)
    write_tensors(tmp_path / "tied.safetensors", {"embedding": table, "head": table})
    assert (tmp_path / "tied.safetensors").stat().st_size < 1.2 * table.numel() * 4
    loaded = read_tensors(tmp_path / "tied.safetensors")
    assert loaded["head"] is loaded["embedding"] and torch.equal(loaded["head"], table)
    first, second = there_and_back([table, table], tmp_path)
    assert first is second


class Anything:
    pass


@pytest.mark.parametrize(
    "wrong",
    [Anything(), {1, 2}, torch.Size([1]), lambda: 0, range(3), Path("a"), 1j],
    ids=lambda wrong: type(wrong).__name__,
)
def test_anything_else_is_refused_with_its_path(wrong: Any) -> None:
    with pytest.raises(CheckpointError, match=r"state\['callbacks'\]\[2\]\['held'\]") as caught:
        encode({"callbacks": [0, 1, {"held": wrong}]})
    assert type(wrong).__qualname__ in str(caught.value)


def test_a_list_that_holds_itself_and_strange_tensors_are_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(CheckpointError, match="hold itself"):
        encode(loop)
    for tensor in (torch.empty(2, device="meta"), torch.eye(2).to_sparse(), torch.zeros(1, dtype=torch.complex128)):
        with pytest.raises(CheckpointError, match=r"state\['x'\]"):
            encode({"x": tensor})


@pytest.mark.parametrize(
    "structure",
    [{"$tensor": "absent"}, {"$unknown": 1}, {"$tuple": 3}, {"$bytes": "?"}, {"$dict": [[1]]}, {"$float": "x"},
     {"$tensor": "a", "more": 1}, {"$dict": [[[], 1]]}],
    ids=str,
)  # fmt: skip
def test_a_strange_structure_is_called_damaged(structure: Any) -> None:
    with pytest.raises(DamagedCheckpoint):
        decode(structure, {})
