"""Whatever number a recipe gives to whatever option: it is refused when it is read, or the model runs."""

from __future__ import annotations

import typing
from typing import Any

import pytest
import torch
from models.tiny_models import KIT, random_tokens
from pydantic_core import PydanticUndefined

from kit import EncoderDecoder, RecipeError
from kit.plugin.discovery import Registered

WHOLE = (0, -1, 1, 3, 7, 40)
BROKEN = (-1.0, 0.0, 0.5, 1.0, 3.7, 50.0)
FEATURES_OF_FORM = ("document", "prefix", "segment")
KINDS = ("attention", "position", "norm", "residual", "mask", "feedforward", "embedding", "stack", "head")
NEEDED: dict[str, Any] = {
    "depth": 2, "attention": "softmax", "feedforward": "relu", "residual": "pre", "classes": 3, "masks": ["causal"],
    "mask": "causal", "file": "vectors.txt", "norm": "layer",
}  # fmt: skip


def parts() -> list[Registered]:
    return [part for kind in KINDS for part in KIT.registry.components(kind)]


def numbers(part: Registered) -> list[tuple[str, tuple[Any, ...]]]:
    """The options of a part that take a number, each with values to try."""
    found = []
    for name, field in part.component.options_type.model_fields.items():
        kinds = {field.annotation, *typing.get_args(field.annotation)}
        if int in kinds or any(typing.get_args(kind)[:1] == (int,) for kind in kinds):
            found.append((name, WHOLE))
        elif float in kinds or any(typing.get_args(kind)[:1] == (float,) for kind in kinds):
            found.append((name, BROKEN))
    return found


def options(part: Registered, **changes: Any) -> dict[str, Any]:
    needed = {
        name: NEEDED[name]
        for name, field in part.component.options_type.model_fields.items()
        if field.default is PydanticUndefined and field.default_factory is None and name != "use" and name in NEEDED
    }
    return {"use": part.name, **needed, **changes}


def recipe(part: Registered, family: str, **changes: Any) -> dict[str, Any]:
    """A small recipe with one part exchanged."""
    given = options(part, **changes)
    layers: dict[str, Any] = {"attention": {"use": "softmax", "heads": 2}, "feedforward": "relu", "residual": "pre"}
    if part.kind in layers:
        layers[part.kind] = given
    stack: dict[str, Any] = {"depth": 2, **layers}
    if part.kind == "stack":
        stack = given
    model: dict[str, Any] = {"family": family, "width": 16, "vocabulary": 50, "length": 32, "norm": "layer"}
    if part.kind in ("position", "norm", "embedding", "head"):
        model[part.kind] = given
    model[family] = {**stack, "masks": [given]} if part.kind == "mask" else stack
    if family == "decoder" and part.kind != "stack":
        model[family] = {**model[family], "masks": [*model[family].get("masks", []), "causal"]}
    elif family == "decoder" and "masks" in part.component.options_type.model_fields:
        model[family] = {**stack, "masks": ["causal"]}
    return {"name": "odd", "model": model}


@pytest.mark.parametrize("part", parts(), ids=lambda part: f"{part.kind}-{part.name}")
def test_a_number_is_refused_or_works(part: Registered) -> None:
    tried = refused = 0
    for family in ("encoder", "decoder"):
        for name, values in numbers(part):
            for value in values:
                tried += 1
                try:
                    found = KIT.recipe(recipe(part, family, **{name: value}))
                except RecipeError:
                    refused += 1
                    continue
                torch.manual_seed(0)
                model = KIT.build(found)
                assert not isinstance(model, EncoderDecoder)
                tokens = random_tokens(5, 9)
                tokens = type(tokens)(
                    tokens.ids, tokens.padding_mask, dict.fromkeys(FEATURES_OF_FORM, tokens.ids * 0), True
                )
                assert model(tokens).isfinite().all(), (family, name, value)
    assert tried == 0 or refused > 0, "no value was refused, not even a negative size"
