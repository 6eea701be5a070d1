"""Induction and duplicate-token heads, on random tokens that are read twice (Elhage et al. 2021; Olsson et al. 2022).

Shapes: H heads, Q queries, K keys, T tokens that are repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import torch
from pydantic import PositiveInt
from torch import Tensor

from kit import ITS_OWN_TEXT, AttentionMap, AttentionRecord, HeadProbe, Ids, Inspector, Kind, Options, Role, text_ids


class RepeatedOptions(Options):
    """Options of `repeated`."""

    use: Literal["repeated"] = "repeated"
    length: PositiveInt = 24
    """How many random tokens are read twice; fewer where the model is made for shorter texts."""
    texts: PositiveInt = 16
    """How many such texts."""
    seed: int = 0
    """What the tokens depend on."""


class RepeatedProbe(HeadProbe):
    """In the second copy: the weight of what came after this token in the first, of the same token, of the last one."""

    options_type = RepeatedOptions
    options: RepeatedOptions
    kinds = ITS_OWN_TEXT

    @property
    def quantities(self) -> Mapping[str, str]:
        """Three numbers."""
        return {
            "induction": "on repeated random tokens, the weight of what came after this token the last time",
            "duplicate": "on repeated random tokens, the weight of the same token where it stood before",
            "previous on noise": "on repeated random tokens, the weight of the token before",
        }

    def gather(self, inspector: Inspector, rows: Sequence[Ids]) -> Iterator[Mapping[str, Tensor]]:
        """Texts of its own, whatever was given."""
        length = min(self.options.length, (inspector.reader.length - 3) // 2)
        if length < 2:
            return
        for record in inspector.stream(self.texts(inspector, length)):
            yield {found.site: self.look(found, record, length) for found in record.maps if found.kind in self.kinds}

    def texts(self, inspector: Inspector, length: int) -> list[Ids]:
        """Random tokens, each text the same ones twice; without repetition where there are enough of them."""
        generator = torch.Generator().manual_seed(self.options.seed)
        reader = inspector.reader
        source = [self._drawn(text_ids(reader.tokenizers.source), length, generator) for _ in range(self.options.texts)]
        if not reader.writes:
            return [Ids(ids * 2) for ids in source]
        target = [self._drawn(text_ids(reader.tokenizers.target), length, generator) for _ in range(self.options.texts)]
        if reader.form == "prefixed":  # the source and the target stand in one row
            return [Ids(ids, ids) for ids in target]
        return [Ids(one * 2, other * 2) for one, other in zip(source, target, strict=True)]

    def look(self, found: AttentionMap, record: AttentionRecord, length: int) -> Tensor:
        """Mean over the tokens of the second copy."""
        row = record.queries(found)
        words = [place for place, special in enumerate(row.special) if not special]
        first, second = words[:length], words[length : 2 * length]
        queries = torch.tensor(second)
        weights_HQK = found.shares[:, queries]
        places = torch.arange(len(second))
        before = torch.tensor(first[: len(second)])
        after = torch.tensor([*first[1:], second[0]])[: len(second)]
        numbers = [weights_HQK[:, places, keys].mean(1) for keys in (after, before, queries - 1)]
        return torch.stack(numbers, -1)

    def role(self, values: Mapping[str, float], kind: Kind) -> Role | None:
        """An induction or a duplicate-token head."""
        if values["induction"] > 0.4:
            return Role(0.5 + values["induction"] / 2, "goes on as it went the last time (an induction head)")
        if values["duplicate"] > 0.4:
            return Role(0.5 + values["duplicate"] / 2, "looks for the same token earlier in the text")
        return None

    @staticmethod
    def _drawn(ids: range, length: int, generator: torch.Generator) -> tuple[int, ...]:
        if len(ids) >= length:
            chosen = torch.randperm(len(ids), generator=generator)[:length]
        else:
            chosen = torch.randint(len(ids), (length,), generator=generator)
        return tuple(ids[int(number)] for number in chosen)
