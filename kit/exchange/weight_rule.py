"""One rule of a weight map: which tensors of theirs make one tensor here, and how they have to be turned and joined."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache

import torch
from pydantic import BaseModel, ConfigDict, NonNegativeInt, model_validator
from torch import Tensor

from kit.errors import KitError

_PLACEHOLDER = re.compile(r"\{(\w+)\}")


class Rule(BaseModel):
    """Where one tensor, or one tensor of every layer, comes from."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    ours: str
    """The name here; {layer} stands for a number, any other name in braces for a word."""
    theirs: str | list[str]
    """The name there, or several names whose tensors are joined along the first axis."""
    transpose: bool = False
    """Whether matrices of theirs are turned over first (GPT-2 keeps them that way)."""
    flatten: bool = False
    """Whether a first axis of size one is taken off theirs first."""
    skip: NonNegativeInt = 0
    """How many leading rows of theirs are left out (BART's position tables begin with two unused ones)."""
    by_head: bool = False
    """Whether theirs lies head by head as query, key, value, where ours has all queries first (BLOOM, GPT-NeoX)."""

    @model_validator(mode="after")
    def _placeholders_are_known(self) -> Rule:
        known = set(_PLACEHOLDER.findall(self.ours))
        names = [self.theirs] if isinstance(self.theirs, str) else self.theirs
        for unknown in (name for each in names for name in _PLACEHOLDER.findall(each) if name not in known):
            raise ValueError(f"{{{unknown}}} stands in theirs and not in ours, {self.ours}")
        return self

    def names(self, match: Mapping[str, str]) -> list[str]:
        """Their names, placeholders filled in."""
        names = [self.theirs] if isinstance(self.theirs, str) else self.theirs
        return [name.format(**match) for name in names]

    def arrange(self, name: str, tensors: Sequence[Tensor], heads: int) -> Tensor:
        """Their tensors as ours: turned over, joined, cut, put in order."""
        if self.flatten:
            tensors = [tensor.squeeze(0) for tensor in tensors]
        if self.transpose:
            tensors = [tensor.T if tensor.dim() == 2 else tensor for tensor in tensors]
        if len({tensor.shape[1:] for tensor in tensors}) > 1:
            shapes = " and ".join(str(tuple(tensor.shape)) for tensor in tensors)
            raise KitError(f"{name} is made of tensors of shapes that do not join: {shapes}")
        value = torch.cat(list(tensors))[self.skip :]
        if not self.by_head:
            return value
        if value.shape[0] % (3 * heads):
            raise KitError(f"{name} has {heads} heads here, and {value.shape[0]} rows cannot be shared out among them")
        by_head: Tensor = value.unflatten(0, (heads, 3, -1))
        return by_head.transpose(0, 1).flatten(0, 2)


def match_name(template: str, name: str) -> dict[str, str] | None:
    """What the placeholders of a template stand for in a name; None where the name does not fit."""
    found = _pattern(template).fullmatch(name)
    return None if found is None else found.groupdict()


@cache
def _pattern(template: str) -> re.Pattern[str]:
    pieces = _PLACEHOLDER.split(template)
    for index in range(1, len(pieces), 2):
        pieces[index] = f"(?P<{pieces[index]}>{'[0-9]+' if pieces[index] == 'layer' else '[a-z_]+'})"
    pieces[::2] = map(re.escape, pieces[::2])
    return re.compile("".join(pieces))
