"""A search as a recipe writes it, built with its constraints."""

from __future__ import annotations

import math

import pytest
from models.table_decoder import TableDecoder
from models.tiny_models import KIT

from kit import KitError, SequenceGenerator
from kit_constraint.allowed import AllowedOptions
from kit_constraint.forbidden import ForbiddenOptions
from kit_constraint.length import LengthOptions
from kit_search.beam import BeamOptions, BeamSearch
from kit_search.greedy import GreedySearch


def test_a_search_with_constraints() -> None:
    options = BeamOptions(size=2, length=3, constraints=[LengthOptions(maximum=1), AllowedOptions(phrases=["b", [0]])])
    generator = SequenceGenerator.build(options, KIT.registry, encode=lambda text: [ord(text) - 97], vocabulary=3)
    assert isinstance(generator.search, BeamSearch)
    assert [type(each.options) for each in generator.constraints] == [LengthOptions, AllowedOptions]
    assert [each.options.use for each in generator.constraints] == ["length", "allowed"]


def test_the_default_is_greedy() -> None:
    generator = SequenceGenerator.build(None, KIT.registry)
    assert isinstance(generator.search, GreedySearch)
    table = {(): [0.0, 0.0, 0.1, 0.9], (3,): [0.0, 0.0, 0.2, 0.8], (3, 3): [0.0, 0.0, 0.9, 0.1]}
    ((found,),) = generator.generate(TableDecoder(table), length=4)
    assert found.tokens == [3, 3]
    assert found.score == pytest.approx(math.log(0.9 * 0.8 * 0.9), abs=1e-6)
    ((cut,),) = generator.generate(TableDecoder(table), length=1)
    assert (cut.tokens, cut.finished) == ([3], False)


def test_a_token_that_does_not_exist_is_refused() -> None:
    options = BeamOptions(constraints=[LengthOptions(), ForbiddenOptions(phrases=[[7]])])
    with pytest.raises(
        KitError, match=r"constraints\[1\] \(forbidden\): it names the token 7, and the vocabulary ends at 2"
    ):
        SequenceGenerator.build(options, KIT.registry, vocabulary=3)


def test_a_recipe_can_hold_it() -> None:
    """The slots of a search's own options are bound like any others."""
    from kit.plugin.component import SearchSlot
    from kit.recipe.sections import Section
    from kit.recipe.slot_schema import bind

    class Holder(Section):
        search: SearchSlot

    bound = bind(Holder, KIT.registry)
    read = bound.model_validate(
        {"search": {"use": "beam", "size": 3, "constraints": [{"use": "length", "minimum": 2}]}}
    )
    assert isinstance(read.search, BeamOptions)
    generator = SequenceGenerator.build(read.search, KIT.registry)
    assert generator.constraints[0].options.minimum == 2
