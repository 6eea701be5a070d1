"""What is taken apart into tensors and numbers is put together the same, and things of another shape are noticed."""

from __future__ import annotations

from collections import OrderedDict
from enum import Enum
from typing import Any

import pytest
import torch

from kit import TokenBatch
from kit.contracts.stack import EncoderOutput
from kit.generation.flat_cache import NotFlattenable, compiled_flatten, flatten, unflatten
from kit.sequence.batch_layout import BatchLayout
from kit.sequence.cache import CacheList, KVCache


def state() -> CacheList:
    part = KVCache()
    part.append(torch.randn(2, 3, 4, 5), torch.randn(2, 3, 4, 5))
    return CacheList([part, part])


def test_a_state_is_the_same_after_it_was_apart() -> None:
    before = state()
    shape, leaves = flatten(before)
    after = unflatten(shape, leaves)
    assert type(after) is CacheList and after.parts[0] is after.parts[1], "what occurs twice is one thing"
    assert after.parts[0] is not before.parts[0] and after.parts[0].length == 4
    assert all(one is other for one, other in zip(leaves, flatten(after)[1], strict=True))
    assert shape == flatten(after)[0] == flatten(state())[0]


def test_tokens_layouts_and_containers_are_taken_apart() -> None:
    tokens = TokenBatch(torch.ones(1, 2), features={"a": torch.zeros(1, 2)})
    thing = (tokens, BatchLayout((1, 2), torch.device("cpu"), offset=3), [None, True, "x", 2.5], {"n": 7})
    shape, leaves = flatten(thing)
    assert [leaf for leaf in leaves if isinstance(leaf, int)] == [1, 2, 3, 7]
    again = unflatten(shape, leaves)
    assert again[0].features["a"] is tokens.features["a"] and again[1].offset == 3 and again[2:] == thing[2:]


class Colour(Enum):
    RED = 1


class Slotted(KVCache):
    __slots__ = ("more",)


def test_constants_are_told_apart_and_sizes_are_numbers() -> None:
    shapes = [flatten(value)[0] for value in (True, 1.0, "1", Colour.RED, 1, None)]
    assert all(one != other for place, one in enumerate(shapes) for other in shapes[:place])
    assert unflatten(*flatten([Colour.RED]))[0] is Colour.RED
    shape, leaves = flatten({"size": torch.Size([2, 3])})
    assert leaves == [2, 3] and unflatten(shape, [4, 5])["size"] == torch.Size([4, 5])
    assert isinstance(unflatten(shape, [4, 5])["size"], torch.Size)


def test_a_memory_is_the_same_after_it_was_apart() -> None:
    memory = EncoderOutput(
        torch.randn(1, 3, 4), BatchLayout((1, 3), torch.device("cpu"), torch.ones(1, 3, dtype=torch.bool))
    )
    again = unflatten(*flatten(memory))
    assert again.x is memory.x and again.layout.padding_mask is memory.layout.padding_mask
    assert again.layout.token_index.tolist() == [[0, 1, 2]]


@pytest.mark.parametrize(
    "odd", [print, int, lambda: None, {1, 2}, object(), OrderedDict(a=1), Slotted(), torch.nn.Linear(1, 1)]
)
def test_what_is_no_leaf_is_refused(odd: object) -> None:
    with pytest.raises(NotFlattenable):
        flatten([odd])


def test_a_reader_gives_the_leaves_of_things_of_its_shape_only() -> None:
    def layout(**changed: Any) -> BatchLayout:
        made = BatchLayout((1, 2), torch.device("cpu"), offset=torch.zeros(1, 4))
        made.__dict__.update(changed)
        return made

    shape, leaves = flatten(layout())
    read = compiled_flatten(shape, leaves)
    other = layout(rows=5, offset=torch.ones(1, 9))
    given = read(other)
    assert given is not None and all(one is two for one, two in zip(given, flatten(other)[1], strict=True))
    for odd in (
        layout(padding_mask=torch.ones(1, 2)),
        layout(right_padded=False),
        layout(more=1),
        layout(offset=3),
        layout(rows=torch.ones(1)),
        layout(offset=torch.zeros(1, 4, dtype=torch.long)),
        layout(offset=torch.zeros(4, 3).t()),
        layout(features={"a": 1}),
        layout(right_padded=1),
        layout(offset=torch.zeros(4)),
        layout(offset=torch.zeros(1, 2, 4)),
        [layout()],
    ):
        assert read(odd) is None
