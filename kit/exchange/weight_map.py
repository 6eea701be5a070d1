"""Weights of another library into a model of the kit, by a map of names to names that is data, not code.

A map is a YAML file of two lists. `weights`: rules, each with `ours` (a name here, with placeholders such as {layer}) and
`theirs` (one name there, or several that lie one after the other in ours). `unused`: names there that have no place here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import torch
import yaml
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn

from kit.errors import KitError


class Rule(BaseModel):
    """Where one tensor, or one tensor of every layer, comes from."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    ours: str
    """The name here; {layer} stands for a number, any other name in braces for a word."""
    theirs: str | list[str]
    """The name there, or several names whose tensors are joined along the first axis."""
    transpose: bool = False
    """Whether each of theirs is turned over first (GPT-2 keeps matrices that way)."""
    skip: int = 0
    """How many leading rows of theirs are left out (BART's position tables begin with two unused ones)."""
    add: str | None = None
    """A tensor of theirs whose first row is added to every row (BERT's token types)."""
    reorder: Literal["none", "heads_first"] = "none"
    """`heads_first`: theirs lies head by head as query, key, value; ours has all queries first (BLOOM, GPT-NeoX)."""
    flatten: bool = False
    """Whether leading axes of size one are taken off theirs."""


class WeightMap(BaseModel):
    """All rules for one architecture."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    weights: list[Rule]
    """The rules; the first that fits a name is used."""
    unused: list[str] = []
    """Patterns of names there that have no place here."""

    @classmethod
    def read(cls, path: Path | str) -> WeightMap:
        """Read a map from YAML."""
        return cls.model_validate(yaml.safe_load(Path(path).read_text(encoding="utf-8")))

    def load(self, model: nn.Module, theirs: Mapping[str, Tensor], heads: int = 1) -> None:
        """Fill every parameter of a model from their tensors; anything left over on either side is an error."""
        used: set[str] = set()
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                value = self._find(name, theirs, used, heads)
                if value.shape != parameter.shape:
                    raise KitError(
                        f"{name} is {tuple(parameter.shape)} here, and {tuple(value.shape)} comes in; "
                        "the recipe's sizes do not fit these weights"
                    )
                parameter.copy_(value)
        left = [name for name in theirs if name not in used and not any(_fits(p, name) for p in self.unused)]
        if left:
            raise KitError(f"nothing here takes {', '.join(left[:5])}{' and more' if len(left) > 5 else ''}")

    def _find(self, name: str, theirs: Mapping[str, Tensor], used: set[str], heads: int) -> Tensor:
        for rule in self.weights:
            match = _match(rule.ours, name)
            if match is None:
                continue
            names = [rule.theirs] if isinstance(rule.theirs, str) else rule.theirs
            wanted = [each.format(**match) for each in names]
            missing = [each for each in wanted if each not in theirs]
            if missing:
                raise KitError(f"{name} comes from {missing[0]}, which is not among the weights given")
            used.update(wanted)
            return _arrange([theirs[each] for each in wanted], rule, theirs, match, used, heads)
        raise KitError(f"no rule of the map says where {name} comes from")


def _arrange(
    tensors: list[Tensor], rule: Rule, theirs: Mapping[str, Tensor], match: dict[str, str], used: set[str], heads: int
) -> Tensor:
    if rule.flatten:
        tensors = [tensor.squeeze(0) for tensor in tensors]
    if rule.transpose:
        tensors = [tensor.T if tensor.dim() == 2 else tensor for tensor in tensors]
    value = torch.cat(tensors)[rule.skip :]
    if rule.add is not None:
        added = rule.add.format(**match)
        used.add(added)
        value = value + theirs[added][0]
    if rule.reorder == "heads_first":
        value = value.unflatten(0, (heads, 3, -1)).transpose(0, 1).flatten(0, 2)
    return value


def _pattern(template: str) -> str:
    """A template as a regular expression: {layer} stands for a number, any other {name} for a word."""
    pieces = re.split(r"\{(\w+)\}", template)
    for index in range(1, len(pieces), 2):
        pieces[index] = f"(?P<{pieces[index]}>{'[0-9]+' if pieces[index] == 'layer' else '[a-z_]+'})"
    pieces[::2] = map(re.escape, pieces[::2])
    return "".join(pieces)


def _match(template: str, name: str) -> dict[str, str] | None:
    found = re.fullmatch(_pattern(template), name)
    return None if found is None else found.groupdict()


def _fits(template: str, name: str) -> bool:
    return _match(template, name) is not None
