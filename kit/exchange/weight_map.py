"""Weights of another library into a model of the kit, by a map of names to names that is data, not code.

A map is a YAML file. `weights` is a list of rules, each with `ours` (a name here, with placeholders such as {layer})
and `theirs` (one name there, or several that lie one after the other in ours). `unused` lists names there that have no
place here. `extends` names another map, whose rules follow these.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
import yaml
from pydantic import BaseModel, ConfigDict, ValidationError
from torch import Tensor, nn

from kit.contracts.multi_head import MultiHeadAttention
from kit.errors import KitError
from kit.exchange.weight_rule import Rule, match_name

LONGEST = 8
"""How many maps may extend each other in a row."""
SHOWN = 5
"""How many problems a message lists."""


class WeightMap(BaseModel):
    """All rules for one architecture."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    extends: str | None = None
    """Another map, beside this one, for what this one does not say."""
    weights: list[Rule] = []
    """The rules; the first that fits a name is used."""
    unused: list[str] = []
    """Names there, placeholders allowed, that have no place here."""

    @classmethod
    def read(cls, path: Path | str) -> WeightMap:
        """Read a map from YAML, with those that it extends."""
        path, rules, unused = Path(path), [], []
        for _ in range(LONGEST):
            found = cls._read_one(path)
            rules += found.weights
            unused += found.unused
            if found.extends is None:
                return cls(weights=rules, unused=unused)
            path = path.parent / found.extends
        raise KitError(f"{path}: more than {LONGEST} weight maps extend each other in a row")

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
        """Fill every parameter of a model from their tensors.

        A parameter that gets nothing and a tensor that goes nowhere are errors, all told at once; the model then stays
        as it was.
        """
        used: set[str] = set()
        problems: list[str] = []
        values: list[tuple[Tensor, Tensor]] = []
        for name, parameter in model.named_parameters():
            try:
                values.append((parameter, self._value(model, name, parameter, theirs, used)))
            except KitError as error:
                problems.append(str(error))
        left = [name for name in theirs if name not in used and not any(_fits(each, name) for each in self.unused)]
        problems += [f"{name} of theirs is taken by nothing here" for name in left]
        if problems:
            more = [f"and {len(problems) - SHOWN} more"] if len(problems) > SHOWN else []
            raise KitError("\n".join([*problems[:SHOWN], *more]))
        with torch.no_grad():
            for ours, value in values:
                ours.copy_(value)

    def _value(
        self, model: nn.Module, name: str, parameter: Tensor, theirs: Mapping[str, Tensor], used: set[str]
    ) -> Tensor:
        """What one parameter is to hold."""
        for rule in self.weights:
            match = match_name(rule.ours, name)
            if match is None:
                continue
            wanted = rule.names(match)
            used.update(wanted)
            missing = [each for each in wanted if each not in theirs]
            if missing:
                raise KitError(f"{name} comes from {missing[0]}, which is not among the weights given")
            value = rule.arrange(name, [theirs[each] for each in wanted], _heads(model, name))
            if value.shape != parameter.shape:
                raise KitError(
                    f"{name} is {tuple(parameter.shape)} here, and {tuple(value.shape)} comes in from "
                    f"{' and '.join(wanted)}; the recipe's sizes do not fit these weights"
                )
            return value
        raise KitError(f"no rule of the map says where {name} comes from")


def _heads(model: nn.Module, name: str) -> int:
    """How many heads the attention has that a parameter is in; 1 outside of one."""
    steps = name.split(".")
    for end in range(len(steps) - 1, 0, -1):
        module = model.get_submodule(".".join(steps[:end]))
        if isinstance(module, MultiHeadAttention):
            return module.heads
    return 1


def _fits(template: str, name: str) -> bool:
    return match_name(template, name) is not None
