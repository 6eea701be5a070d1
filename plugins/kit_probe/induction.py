"""Induction and duplicate-token heads, on a repeated random sequence (Elhage et al. 2021; Olsson et al. 2022).

Shapes: H heads, Q queries, K keys, T tokens of the repeated sequence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import torch
from pydantic import PositiveInt
from torch import Tensor

from kit import (
    SELF_ATTENTION,
    AttentionKind,
    AttentionMap,
    AttentionRecord,
    ExampleIds,
    HeadProbe,
    Inspector,
    Options,
    Role,
    ordinary_token_ids,
)


class InductionOptions(Options):
    """Options of `induction`."""

    use: Literal["induction"] = "induction"
    length: PositiveInt = 24
    """The length of the sequence that is repeated; shorter where the model's maximum length needs it."""
    sequences: PositiveInt = 16
    """The number of such sequences."""
    seed: int = 0
    """The seed of the tokens."""


class InductionProbe(HeadProbe):
    """In the second copy: the weight on the successor of the same token, on that token, and on the previous one."""

    options_type = InductionOptions
    options: InductionOptions
    kinds = SELF_ATTENTION

    @property
    def quantities(self) -> Mapping[str, str]:
        """Three measures."""
        return {
            "induction": "on repeated random tokens, the weight on the token after the earlier occurrence",
            "duplicate": "on repeated random tokens, the weight on the earlier occurrence of the token",
            "previous on noise": "on repeated random tokens, the weight on the previous token",
        }

    def gather(self, inspector: Inspector, rows: Sequence[ExampleIds]) -> Iterator[Mapping[str, Tensor]]:
        """Measured on generated sequences, whatever the rows."""
        length = min(self.options.length, (inspector.reader.length - 3) // 2)
        if length < 2:
            return
        for record in inspector.run_batches(self.sequences(inspector, length)):
            yield {found.site: self.measure(found, record, length) for found in record.maps if found.kind in self.kinds}

    def sequences(self, inspector: Inspector, length: int) -> list[ExampleIds]:
        """Random tokens, each sequence twice; drawn without replacement where the vocabulary is large enough."""
        generator = torch.Generator().manual_seed(self.options.seed)
        reader = inspector.reader
        source = [
            self._random_ids(ordinary_token_ids(reader.tokenizers.source), length, generator)
            for _ in range(self.options.sequences)
        ]
        if not reader.generates:
            return [ExampleIds(ids * 2) for ids in source]
        target = [
            self._random_ids(ordinary_token_ids(reader.tokenizers.target), length, generator)
            for _ in range(self.options.sequences)
        ]
        if reader.row_format == "prefix_lm":  # source and target share one row
            return [ExampleIds(ids, ids) for ids in target]
        return [ExampleIds(one * 2, other * 2) for one, other in zip(source, target, strict=True)]

    def measure(self, found: AttentionMap, record: AttentionRecord, length: int) -> Tensor:
        """The means over the queries of the second copy."""
        row = record.queries(found)
        positions = [position for position, special in enumerate(row.special) if not special]
        first, second = positions[:length], positions[length : 2 * length]
        queries = torch.tensor(second)
        weights_HQK = found.probabilities[:, queries]
        index = torch.arange(len(second))
        before = torch.tensor(first[: len(second)])
        after = torch.tensor([*first[1:], second[0]])[: len(second)]
        numbers = [weights_HQK[:, index, keys].mean(1) for keys in (after, before, queries - 1)]
        return torch.stack(numbers, -1)

    def role(self, values: Mapping[str, float], kind: AttentionKind) -> Role | None:
        """An induction or a duplicate-token head."""
        if values["induction"] > 0.4:
            return Role(
                0.5 + values["induction"] / 2, "repeats what followed the earlier occurrence (an induction head)"
            )
        if values["duplicate"] > 0.4:
            return Role(0.5 + values["duplicate"] / 2, "looks for an earlier occurrence of the token")
        return None

    @staticmethod
    def _random_ids(ids: range, length: int, generator: torch.Generator) -> tuple[int, ...]:
        if len(ids) >= length:
            chosen = torch.randperm(len(ids), generator=generator)[:length]
        else:
            chosen = torch.randint(len(ids), (length,), generator=generator)
        return tuple(ids[int(number)] for number in chosen)
