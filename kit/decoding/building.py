"""Builds the search of a recipe, with its constraints, ready to be used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kit.component import Options
from kit.contracts.constraint import Constraint, Encode
from kit.contracts.search import Decoder, Hypothesis, Request, Search
from kit.errors import KitError, PartNotFound
from kit.registry import Registry
from kit.tokens import Tokens


@dataclass(frozen=True)
class Writer:
    """A search and the constraints that its options name."""

    search: Search
    constraints: Sequence[Constraint]

    @classmethod
    def build(
        cls, options: Options | None, registry: Registry, encode: Encode | None = None, vocabulary: int | None = None
    ) -> Writer:
        """options: the search of a recipe; left out, the installed default with its default options.

        encode, vocabulary: of the target's tokenizer, for constraints that name texts or tokens.
        """
        if options is None:
            default = registry.default("search")
            if default is None:
                raise PartNotFound("no search is named, and no installed one is the default; write search: {use: ...}")
            options = default.component.options_type.model_validate({})
        constraints = [_part(each, registry) for each in getattr(options, "constraints", ())]
        for number, constraint in enumerate(constraints):
            constraint.prepare(encode)
            for objection in constraint.objections(vocabulary) if vocabulary is not None else ():
                raise KitError(f"search.constraints[{number}] ({constraint.part_name()}): {objection}")
        return cls(_part(options, registry), constraints)

    def write(
        self,
        decoder: Decoder,
        length: int | Sequence[int] | None = None,
        prompt: Tokens | None = None,
        draft: Decoder | None = None,
        streams: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        """For each text the hypotheses that were found, the best first; length: left out, that of the options."""
        most = self.search.options.length if length is None else length
        return self.search.search(decoder, Request(most, self.constraints, prompt, draft, streams))


def _part(options: Options, registry: Registry) -> Any:
    component: Any = registry.of_options(type(options)).component
    return component(options)
