"""Options that cannot be are refused when a recipe is read."""

from __future__ import annotations

from typing import Any

import pytest
from models.table_decoder import LETTERS, TableDecoder, ask
from models.tiny_models import KIT
from pydantic import ValidationError

from kit import KitError, TokenBatch


def options(kind: str, name: str, **settings: Any) -> Any:
    return KIT.registry.find(kind, name).component.options_type(**settings)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("beam", {"size": 4, "groups": 3}, "3 groups do not divide a beam of 4"),
        ("beam", {"size": 4, "nbest": 5}, "a beam of 4 cannot give 5"),
        ("beam", {"size": 0}, "greater than 0"),
        ("beam", {"stop": "never"}, "'first', 'full', 'likely' or 'certain'"),
        ("beam", {"alpha": -1.0}, "greater than or equal to 0"),
        ("sample", {"top_p": 0.0}, "greater than 0"),
        ("sample", {"top_p": 1.1}, "less than or equal to 1"),
        ("sample", {"temperature": 0.0}, "greater than 0"),
        ("contrastive", {"penalty": 1.5}, "less than or equal to 1"),
        ("speculative", {}, "Field required"),
    ],
)
def test_wrong_options_of_searches(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        options("search", name, **settings)


def search_with(name: str, **settings: Any) -> Any:
    return KIT.registry.find("search", name).component(options("search", name, **settings))


def test_wrong_requests_say_what_is_wanted() -> None:
    greedy = search_with("greedy")
    with pytest.raises(KitError, match="2 lengths for 1 texts"):
        greedy.search(TableDecoder(LETTERS), ask(length=[3, 4]))
    with pytest.raises(KitError, match="wanted at least 1"):
        greedy.search(TableDecoder(LETTERS), ask(length=0))
    with pytest.raises(KitError, match="a prompt has no token"):
        greedy.search(TableDecoder(LETTERS, LETTERS), ask(prompt=TokenBatch.from_lists([[1], []])))
    with pytest.raises(KitError, match="needs a second decoder"):
        search_with("speculative", draft="x").search(TableDecoder(LETTERS), ask())


def test_greedy_is_the_default_search() -> None:
    default = KIT.registry.default("search")
    assert default is not None and default.name == "greedy"
