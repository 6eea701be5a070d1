"""Weight maps: rules that load the checkpoint of another library, by renaming, transposing and joining its tensors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import torch
import yaml
from pydantic import BaseModel, ConfigDict, NonNegativeInt, ValidationError, model_validator
from torch import Tensor, nn

from kit import KitError, MultiHeadAttention

_PLACEHOLDER = re.compile(r"\{(\w+)\}")


class Rule(BaseModel):
    """Maps tensors of another library to one parameter, or to one parameter of every layer."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    ours: str
    """The name of the parameter; {layer} matches a number, any other placeholder a word or a number."""
    theirs: str | list[str]
    """The name in the other library, or several names whose tensors are concatenated along the first axis."""
    transpose: bool = False
    """Whether matrices are transposed first (GPT-2)."""
    flatten: bool = False
    """Whether a leading axis of size 1 is removed first."""
    skip: NonNegativeInt = 0
    """The number of leading rows that are dropped (the position tables of BART have two unused ones)."""
    by_head: bool = False
    """Whether query, key and value are interleaved by head, where ours has all queries first (BLOOM, GPT-NeoX)."""

    @model_validator(mode="after")
    def _placeholders_are_known(self) -> Rule:
        known = set(_PLACEHOLDER.findall(self.ours))
        names = [self.theirs] if isinstance(self.theirs, str) else self.theirs
        for unknown in (name for each in names for name in _PLACEHOLDER.findall(each) if name not in known):
            raise ValueError(f"{{{unknown}}} stands in theirs and not in ours, {self.ours}")
        return self

    def names(self, match: Mapping[str, str]) -> list[str]:
        """Returns the names in the other library, with placeholders filled in."""
        names = [self.theirs] if isinstance(self.theirs, str) else self.theirs
        return [name.format(**match) for name in names]

    def convert(self, name: str, tensors: Sequence[Tensor], heads: int) -> Tensor:
        """Returns the value of the parameter: transposed, concatenated, cut and reordered."""
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


class Tied(Rule):
    """Maps tensors that are not loaded, since they are equal to a parameter that another rule loads, or `zero`."""

    otherwise: str
    """What to do if they are not equal, such as `write tie: none`."""


def match_name(template: str, name: str) -> dict[str, str] | None:
    """Matches a name with a template; returns the values of its placeholders, or None."""
    found = _pattern(template).fullmatch(name)
    return None if found is None else found.groupdict()


@cache
def _pattern(template: str) -> re.Pattern[str]:
    pieces = _PLACEHOLDER.split(template)
    for index in range(1, len(pieces), 2):
        pieces[index] = f"(?P<{pieces[index]}>{'[0-9]+' if pieces[index] == 'layer' else '[A-Za-z0-9_]+'})"
    pieces[::2] = map(re.escape, pieces[::2])
    return re.compile("".join(pieces))


MAX_EXTENDS = 8
"""The longest chain of maps that extend each other."""
SHOWN = 5
"""How many problems a message lists."""


class WeightMap(BaseModel):
    """All rules for one architecture."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    extends: str | None = None
    """Another map in the same folder, whose rules apply after these."""
    weights: list[Rule] = []
    """The rules; the first that matches a name is used."""
    tied: list[Tied] = []
    """Rules for tensors that are compared and not loaded, unless a rule above takes them."""
    unused: list[str] = []
    """Names in the other library that are neither loaded nor compared; placeholders are allowed."""

    @classmethod
    def read(cls, path: Path | str) -> WeightMap:
        """Reads a map from YAML, with those that it extends."""
        path, rules, tied, unused = Path(path), [], [], []
        for _ in range(MAX_EXTENDS):
            found = cls._read_one(path)
            rules += found.weights
            tied += found.tied
            unused += found.unused
            if found.extends is None:
                return cls(weights=rules, tied=tied, unused=unused)
            path = path.parent / found.extends
        raise KitError(f"{path}: more than {MAX_EXTENDS} weight maps extend each other in a row")

    @classmethod
    def _read_one(cls, path: Path) -> WeightMap:
        try:
            return cls.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
        except OSError as error:
            raise KitError(f"the weight map {path} cannot be read: {error.strerror}") from None
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise KitError(f"the weight map {path} is no YAML: {error}") from None
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the file"
            raise KitError(
                f"{path}: {where}: {first['msg']}; wanted {{weights: [{{ours: ..., theirs: ...}}]}}"
            ) from None

    def load(self, model: nn.Module, theirs: Mapping[str, Tensor]) -> None:
        """Loads every parameter of a model from the tensors of another library.

        Missing values, unused tensors and tied ones that differ are errors, all reported before the model is changed.
        """
        used: set[str] = set()
        problems: list[str] = []
        values: dict[Tensor, Tensor] = {}
        for name, parameter in model.named_parameters():
            try:
                values[parameter] = self._value(model, name, parameter, theirs, used)
            except KitError as error:
                problems.append(str(error))
        left = {name: tensor for name, tensor in theirs.items() if name not in used}
        for name, each in [*model.named_parameters(remove_duplicate=False), ("zero", torch.empty(0))]:
            problems += self._differences(name, values.get(each), left)
        unknown = [name for name in left if all(match_name(each, name) is None for each in self.unused)]
        problems += [f"{name} of theirs is taken by nothing here" for name in unknown]
        if problems:
            more = [f"and {len(problems) - SHOWN} more"] if len(problems) > SHOWN else []
            raise KitError("\n".join([*problems[:SHOWN], *more]))
        with torch.no_grad():
            for ours, value in values.items():
                ours.copy_(value)

    def _value(
        self, model: nn.Module, name: str, parameter: Tensor, theirs: Mapping[str, Tensor], used: set[str]
    ) -> Tensor:
        """Returns the value of one parameter."""
        for rule in self.weights:
            match = match_name(rule.ours, name)
            if match is None:
                continue
            wanted = rule.names(match)
            used.update(wanted)
            missing = [each for each in wanted if each not in theirs]
            if missing:
                raise KitError(f"{name} comes from {missing[0]}, which is not among the weights given")
            value = rule.convert(name, [theirs[each] for each in wanted], _heads(model, name))
            if value.shape != parameter.shape:
                raise KitError(
                    f"{name} is {tuple(parameter.shape)} here, and {tuple(value.shape)} comes in from "
                    f"{' and '.join(wanted)}; the recipe's sizes do not fit these weights"
                )
            return value
        raise KitError(f"no rule of the map says where {name} comes from")

    def _differences(self, name: str, value: Tensor | None, left: dict[str, Tensor]) -> Iterator[str]:
        """Yields how tensors that are tied to a parameter differ from its value, and takes them from those left."""
        for rule in self.tied:
            match = match_name(rule.ours, name)
            for other in () if match is None else left.keys() & rule.names(match):
                found = rule.convert(other, [left.pop(other)], 1)
                wanted = torch.zeros_like(found) if name == "zero" else found if value is None else value
                if found.shape != wanted.shape or not bool((found == wanted).all()):
                    by = f" by up to {(found - wanted).abs().max():.3g}" if found.shape == wanted.shape else " in shape"
                    yield f"{other} of theirs differs{by} from {name}, which it is tied to here; {rule.otherwise}"


def _heads(model: nn.Module, name: str) -> int:
    """Returns the number of heads of the attention that a parameter belongs to; 1 if there is none."""
    steps = name.split(".")
    for end in range(len(steps) - 1, 0, -1):
        module = model.get_submodule(".".join(steps[:end]))
        if isinstance(module, MultiHeadAttention):
            return module.heads
    return 1
