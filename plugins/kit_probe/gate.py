"""The gate of each head, in a model trained with an L0 regularizer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from torch import Tensor

from kit import AttentionKind, ExampleIds, HeadProbe, Inspector, Options, Regularizer, Role


class GateOptions(Options):
    """Options of `gate`: there are none."""

    use: Literal["gate"] = "gate"


class GateProbe(HeadProbe):
    """The gates of the model's regularizers; nothing without gates."""

    options_type = GateOptions
    orders = {"gates": "gate"}  # noqa: RUF012
    has_uniform_baseline = False

    @property
    def quantities(self) -> Mapping[str, str]:
        """One measure."""
        return {"gate": "the gate on the head's output: 0 for closed, 1 for open"}

    def gather(self, inspector: Inspector, rows: Sequence[ExampleIds]) -> Iterator[Mapping[str, Tensor]]:
        """Gates do not depend on the sequence, so they are collected once."""
        found: dict[str, Tensor] = {}
        for regularizer in inspector.model.regularizers:
            assert isinstance(regularizer, Regularizer)
            found |= {site: gate.double().cpu()[:, None] for site, gate in regularizer.gates().items()}
        if found:
            yield found

    def role(self, values: Mapping[str, float], kind: AttentionKind) -> Role | None:
        """A head with a closed gate."""
        return Role(2.0, "has a closed gate") if values["gate"] < 0.05 else None
