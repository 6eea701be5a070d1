"""What a model wants to be told of every token besides its id, and tokens that say it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pydantic import BaseModel
from torch import Tensor

from kit.component import Options
from kit.contracts.mask import Mask
from kit.recipe.sections import ModelSection
from kit.registry import Registry
from kit.tokens import Tokens


def facts_needed(section: ModelSection, registry: Registry) -> frozenset[str]:
    """The facts that the masks of a model want, such as the document of each token."""
    needs: set[str] = set()
    for options in options_within(section):
        component = registry.of_options(type(options)).component
        if issubclass(component, Mask):
            needs |= set(component.needs)
    return frozenset(needs)


def options_within(model: BaseModel) -> Iterator[Options]:
    """All options of parts inside a section, at any depth."""
    for name in type(model).model_fields:
        value = getattr(model, name)
        for item in value if isinstance(value, list | tuple) else [value]:
            if isinstance(item, Options):
                yield item
            if isinstance(item, BaseModel):
                yield from options_within(item)


def tokens_with(ids: Tensor, facts: Iterable[str]) -> Tokens:
    """Tokens of which every fact is 0, for a trial on shapes alone."""
    return Tokens(ids, facts={name: ids.new_zeros(ids.shape) for name in facts}, right_padded=True)
