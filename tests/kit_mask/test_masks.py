"""Every mask against a slow loop over pairs, the algebra of masks, and what a recipe is told about bad ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from models.single_parts import problems, single_part
from torch import Tensor

from kit import Mask, MaskFeatures, Options
from kit_mask.all import AllOptions
from kit_mask.any import AnyOptions
from kit_mask.causal import CausalOptions
from kit_mask.chunked import ChunkedOptions
from kit_mask.dilated import DilatedOptions
from kit_mask.document import DocumentOptions
from kit_mask.global_tokens import GlobalTokensOptions
from kit_mask.not_ import NotOptions
from kit_mask.prefix import PrefixOptions
from kit_mask.random_blocks import RandomBlocksOptions
from kit_mask.strided import StridedOptions
from kit_mask.window import WindowOptions

LENGTH = 23
DOCUMENT = [n // 5 for n in range(LENGTH)]
MARKED = [n in (2, 3, 11) for n in range(LENGTH)]

PAIRS: dict[str, tuple[Options, Callable[[int, int], bool]]] = {
    "causal": (CausalOptions(), lambda q, k: k <= q),
    "window": (WindowOptions(size=4), lambda q, k: abs(q - k) <= 3),
    "window of one": (WindowOptions(size=1), lambda q, k: q == k),
    "window back": (WindowOptions(size=4, direction="back"), lambda q, k: k in range(q - 3, q + 1)),
    "dilated": (DilatedOptions(size=3, step=4), lambda q, k: k in (q - 8, q - 4, q, q + 4, q + 8)),
    "dilated back": (DilatedOptions(size=3, step=4, direction="back"), lambda q, k: k in (q - 8, q - 4, q)),
    "prefix": (PrefixOptions(), lambda q, k: k <= q or (MARKED[q] and MARKED[k])),
    "document": (DocumentOptions(), lambda q, k: DOCUMENT[q] == DOCUMENT[k]),
    "chunked": (ChunkedOptions(size=6), lambda q, k: q // 6 == k // 6),
    "global": (GlobalTokensOptions(count=2), lambda q, k: q in (0, 1) or k in (0, 1)),
    "global marked": (GlobalTokensOptions(count=None), lambda q, k: MARKED[q] or MARKED[k]),
    "strided": (StridedOptions(stride=5), lambda q, k: abs(q - k) < 5 or abs(q - k) % 5 == 0),
    "fixed": (
        StridedOptions(stride=5, pattern="fixed", summary=2),
        lambda q, k: q // 5 == k // 5 or k % 5 in (3, 4),
    ),
    "all": (
        AllOptions(masks=[CausalOptions(), WindowOptions(size=4)]),
        lambda q, k: k <= q and q - k < 4,
    ),
    "any": (
        AnyOptions(masks=[WindowOptions(size=2), GlobalTokensOptions(count=1)]),
        lambda q, k: abs(q - k) < 2 or q == 0 or k == 0,
    ),
    "not": (NotOptions(mask=CausalOptions()), lambda q, k: k > q),
}


def features(queries: slice = slice(None)) -> MaskFeatures:
    values = {"document": torch.tensor(DOCUMENT), "prefix": torch.tensor(MARKED), "global": torch.tensor(MARKED)}
    return MaskFeatures(
        {name: value[queries][None, :, None] for name, value in values.items()},
        {name: value[None, None, :] for name, value in values.items()},
    )


def table(mask: Mask) -> Tensor:
    """[L, L], true where the key may be seen."""
    at = torch.arange(LENGTH)
    allowed = mask.allows(at[None, :, None], at[None, None, :], features())
    assert allowed.dtype == torch.bool
    return allowed.expand(1, LENGTH, LENGTH)[0]


@pytest.mark.parametrize("name", PAIRS)
def test_against_a_slow_loop_over_pairs(name: str) -> None:
    options, sees = PAIRS[name]
    found = table(single_part(options))
    wanted = torch.tensor([[sees(q, k) for k in range(LENGTH)] for q in range(LENGTH)])
    assert torch.equal(found, wanted)


@pytest.mark.parametrize("name", PAIRS)
def test_what_a_mask_says_of_the_future_is_true(name: str) -> None:
    mask = single_part(PAIRS[name][0])
    sees_ahead = bool(table(mask).triu(1).any())
    assert mask.hides_future is not sees_ahead
    assert mask.is_autoregressive is (not sees_ahead or name == "prefix")


@pytest.mark.parametrize("name", PAIRS)
def test_rows_of_a_batch_may_stand_at_different_places(name: str) -> None:
    """Order indices with a row axis give each row its own table: what left padding and decoding need."""
    mask = single_part(PAIRS[name][0])
    if mask.needs:
        at, later = torch.arange(LENGTH), torch.arange(LENGTH)
    else:
        at, later = torch.arange(LENGTH), torch.arange(LENGTH) + 7
    both = torch.stack([at, later])
    found = mask.allows(both[:, :, None], both[:, None, :], features()).expand(2, LENGTH, LENGTH)
    for row, places in enumerate((at, later)):
        alone = mask.allows(places[None, :, None], places[None, None, :], features())[0]
        assert torch.equal(found[row], alone.expand(LENGTH, LENGTH))


PLAIN = [name for name in PAIRS if name not in ("all", "any", "not")]


@given(st.sampled_from(PLAIN), st.sampled_from(PLAIN), st.sampled_from(PLAIN))
def test_algebra(first: str, second: str, third: str) -> None:
    a, b, c = (single_part(PAIRS[name][0]) for name in (first, second, third))
    same = [
        (~(a & b), ~a | ~b),
        (~(a | b), ~a & ~b),
        (~~a, a),
        (a & b, b & a),
        (a | b, b | a),
        (a & (b | c), (a & b) | (a & c)),
        (a | (b & c), (a | b) & (a | c)),
        ((a & b) & c, a & (b & c)),
        (a & a, a),
        (a | (a & b), a),
    ]
    for left, right in same:
        assert torch.equal(table(left), table(right))
    for made in (a & b, a | b, ~a, (a | b) & c):
        if made.hides_future:
            assert not table(made).triu(1).any()
        assert set(made.needs) <= {*a.needs, *b.needs, *c.needs}


def test_options_compose_as_operators_do() -> None:
    parts = [WindowOptions(size=3), GlobalTokensOptions(count=2), DocumentOptions()]
    a, b, c = (single_part(part) for part in parts)
    assert torch.equal(table(single_part(AllOptions(masks=parts))), table(a & b & c))
    assert torch.equal(table(single_part(AnyOptions(masks=parts))), table(a | b | c))
    nested = NotOptions(mask=AnyOptions(masks=[parts[0], NotOptions(mask=parts[1])]))
    assert torch.equal(table(single_part(nested)), table(~(a | ~b)))
    assert single_part(AllOptions(masks=parts)).needs == ("document",)
    assert single_part(AllOptions(masks=[CausalOptions()])).shape == "causal"


def linked_blocks(options: RandomBlocksOptions, length: int = 240) -> Tensor:
    """[blocks, blocks], read off the first token of each block, after seeing that a block is of one mind."""
    at = torch.arange(length)
    tokens = single_part(options).allows(at[None, :, None], at[None, None, :], MaskFeatures())[0]
    blocks = tokens.view(length // options.size, options.size, length // options.size, options.size)
    assert torch.equal(blocks.any(3).any(1), blocks.all(3).all(1))
    return blocks[:, 0, :, 0]


def test_random_blocks() -> None:
    options = RandomBlocksOptions(size=4, count=3)
    links = linked_blocks(options)
    assert torch.equal(links, links.T)
    drawn = links.tril().sum(1)
    assert drawn.max() <= 3
    assert drawn[20:].float().mean() > 2, "hardly any draws fall on the same block"
    assert torch.equal(links, linked_blocks(options)), "the same every time"
    assert torch.equal(links[:30, :30], linked_blocks(options, 120)), "a longer text keeps its links"
    others = [linked_blocks(RandomBlocksOptions(size=4, count=3, seed=seed)) for seed in (1, 2, 10**12)]
    assert all(not torch.equal(links, other) for other in others)


def test_random_blocks_draw_evenly() -> None:
    """Over many seeds, a late block draws early, middle and late blocks about equally often."""
    last = torch.stack([linked_blocks(RandomBlocksOptions(size=4, count=3, seed=seed))[-1] for seed in range(300)])
    thirds = last.float().sum(0).view(3, 20).sum(1)
    assert thirds.sum() > 800
    assert (thirds / thirds.sum() - 1 / 3).abs().max() < 0.06


@pytest.mark.parametrize(
    ("options", "place"),
    [
        (WindowOptions(size=65), "size"),
        (DilatedOptions(size=33, step=2), "size"),
        (ChunkedOptions(size=65), "size"),
        (GlobalTokensOptions(count=64), "count"),
        (StridedOptions(stride=65), "stride"),
        (StridedOptions(stride=4, pattern="fixed", summary=4), "summary"),
        (RandomBlocksOptions(size=65), "size"),
        (NotOptions(mask=WindowOptions(size=65)), "size"),
        (AnyOptions(masks=[CausalOptions(), WindowOptions(size=65)]), "size"),
        (AllOptions(masks=[WindowOptions(size=65)]), "size"),
    ],
)
def test_masks_that_would_hide_nothing_are_refused(options: Options, place: str) -> None:
    (problem,) = problems(options, length=64)
    assert problem.path[-1] == place
    assert problem.hint
    assert not problems(options, length=66) or place == "summary"


@pytest.mark.parametrize(
    "bad",
    [
        lambda: WindowOptions(size=0),
        lambda: DilatedOptions(step=1),
        lambda: ChunkedOptions(size=-1),
        lambda: GlobalTokensOptions(count=0),
        lambda: StridedOptions(stride=1),
        lambda: RandomBlocksOptions(count=0),
        lambda: RandomBlocksOptions(seed=-1),
        lambda: AllOptions(masks=[]),
    ],
)
def test_numbers_out_of_range_are_refused(bad: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        bad()
