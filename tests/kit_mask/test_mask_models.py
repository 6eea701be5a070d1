"""Masks in whole models: padding, the future, steps, and masks that want facts of a batch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from models.model_checks import check_decoder, check_encoder
from models.tiny_models import build, random_tokens

from kit import KitError, Options, RecipeError, TokenBatch
from kit_feedforward.conv import ConvOptions
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
from kit_position.rotary import RotaryOptions

BIG_BIRD = AnyOptions(masks=[WindowOptions(size=2), GlobalTokensOptions(), RandomBlocksOptions(size=2, count=1)])
VARIANTS: dict[str, Options] = {
    "window": WindowOptions(size=3),
    "dilated": DilatedOptions(size=2, step=3),
    "chunked": ChunkedOptions(size=3),
    "strided": StridedOptions(stride=2),
    "fixed": StridedOptions(stride=3, pattern="fixed"),
    "big bird": BIG_BIRD,
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_whole_model(variant: str) -> None:
    mask = VARIANTS[variant]
    check_decoder(build("decoder", {"masks": (CausalOptions(), mask)}))
    encoder = build("encoder").encoder.stack.options.model_copy(update={"masks": [mask]})
    check_encoder(build("encoder", encoder=encoder))


def with_facts(tokens: TokenBatch, piece: slice = slice(None), **features: list[list[int]]) -> TokenBatch:
    padding_mask = None if tokens.padding_mask is None else tokens.padding_mask[:, piece]
    return TokenBatch(
        tokens.ids[:, piece],
        padding_mask,
        {name: torch.tensor(feature)[:, piece] for name, feature in features.items()},
    )


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("layer", [{}, {"feedforward": ConvOptions(kernel=3)}], ids=["relu", "conv"])
def test_packed_documents_are_as_if_alone(packed: bool, layer: dict[str, Any]) -> None:
    """Two documents in one row, with their own positions, give what each gives in a row of its own."""
    model = build("decoder", {"masks": (CausalOptions(), DocumentOptions()), **layer}, position=RotaryOptions())
    both = random_tokens(9, 9)
    features = {"document": [[0] * 4 + [1] * 5] * 2, "position": [[0, 1, 2, 3, 0, 1, 2, 3, 4]] * 2}
    with torch.no_grad():
        found = model(target=with_facts(both, **features), packed=packed)
        first = model(target=with_facts(TokenBatch(both.ids[:, :4]), document=[[0] * 4] * 2))
        second = model(target=with_facts(TokenBatch(both.ids[:, 4:]), document=[[0] * 5] * 2))
        session = model.start()
        steps = [session.step(with_facts(both, slice(n, n + 3), **features)) for n in (0, 3, 6)]
    assert (found.view(2, 9, -1) - torch.cat([first, second], 1)).abs().max() < 1e-10
    assert (torch.cat(steps, 1) - torch.cat([first, second], 1)).abs().max() < 1e-10


PREFIX = [[1, 1, 1, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0, 0]]


def test_prefix_is_read_both_ways_and_what_follows_is_written() -> None:
    model = build("decoder", {"masks": (PrefixOptions(),)})
    tokens = random_tokens(7, 7)
    with torch.no_grad():
        before = model(target=with_facts(tokens, prefix=PREFIX))
        for place in range(7):
            ids = tokens.ids.clone()
            ids[:, place] = ids[:, place] % 49 + 1
            after = model(target=with_facts(TokenBatch(ids), prefix=PREFIX))
            changed = (before - after).abs().amax(-1) > 1e-12
            for row in range(2):
                given = sum(PREFIX[row])
                first = 0 if place < given else place
                assert changed[row].tolist() == [n >= first for n in range(7)]


def test_prefix_in_one_step_then_token_by_token() -> None:
    model = build("decoder", {"masks": (PrefixOptions(),)})
    tokens = random_tokens(7, 7)
    with torch.no_grad():
        whole = model(target=with_facts(tokens, prefix=PREFIX))
        session = model.start()
        pieces = [slice(0, 3), *(slice(n, n + 1) for n in range(3, 7))]
        steps = [session.step(with_facts(tokens, piece, prefix=PREFIX)) for piece in pieces]
        assert (torch.cat(steps, 1) - whole).abs().max() < 1e-10
        late = model.start()
        late.step(with_facts(tokens, slice(0, 2), prefix=PREFIX))
        with pytest.raises(KitError, match="the whole prefix in the first step"):
            late.step(with_facts(tokens, slice(2, 3), prefix=PREFIX))


def test_a_missing_fact_is_named() -> None:
    model = build("decoder", {"masks": (PrefixOptions(),)})
    with pytest.raises(KitError, match="'prefix'"):
        model(target=random_tokens(4))


@pytest.mark.parametrize(
    "masks",
    [
        (WindowOptions(size=3),),
        (DocumentOptions(),),
        (NotOptions(mask=CausalOptions()),),
        (AnyOptions(masks=[CausalOptions(), GlobalTokensOptions()]),),
        (AnyOptions(masks=[PrefixOptions(), WindowOptions(size=2)]),),
        (NotOptions(mask=PrefixOptions()),),
    ],
)
def test_a_decoder_that_would_see_the_future_is_refused(masks: tuple[Options, ...]) -> None:
    with pytest.raises(RecipeError, match="do not hide the future"):
        build("decoder", {"masks": masks})


@pytest.mark.parametrize(
    "masks",
    [
        (WindowOptions(size=3, direction="back"),),
        (CausalOptions(), DocumentOptions()),
        (PrefixOptions(), WindowOptions(size=3)),
        (AllOptions(masks=[PrefixOptions(), DocumentOptions()]),),
        (AnyOptions(masks=[PrefixOptions(), CausalOptions()]),),
    ],
)
def test_a_decoder_that_can_write_is_built(masks: tuple[Options, ...]) -> None:
    build("decoder", {"masks": masks})


def test_a_query_that_sees_nothing_gives_finite_gradients() -> None:
    """Under «not causal» the last token sees nothing."""
    stack = build("encoder").encoder.stack.options.model_copy(update={"masks": [NotOptions(mask=CausalOptions())]})
    model = build("encoder", encoder=stack)
    scores = model(random_tokens(5, 3))
    scores.sum().backward()
    assert scores.isfinite().all()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in model.parameters())
