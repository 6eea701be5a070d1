"""How far open the gate of each head is, in a model that was trained with gates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from torch import Tensor

from kit import HeadProbe, Ids, Inspector, Kind, Options, Regularizer, Role


class GateOptions(Options):
    """Options of `gate`: there are none."""

    use: Literal["gate"] = "gate"


class GateProbe(HeadProbe):
    """What regularizers of the model say of their gates; nothing where there are none."""

    options_type = GateOptions
    orders = {"gates": "gate"}  # noqa: RUF012
    has_even = False

    @property
    def quantities(self) -> Mapping[str, str]:
        """One number."""
        return {"gate": "how far open the gate in front of the head is: 0 for shut, 1 for open"}

    def gather(self, inspector: Inspector, rows: Sequence[Ids]) -> Iterator[Mapping[str, Tensor]]:
        """The same for every text, so once."""
        found: dict[str, Tensor] = {}
        for regularizer in inspector.model.regularizers:
            assert isinstance(regularizer, Regularizer)
            found |= {site: gate.double().cpu()[:, None] for site, gate in regularizer.gates().items()}
        if found:
            yield found

    def role(self, values: Mapping[str, float], kind: Kind) -> Role | None:
        """A head that was shut."""
        return Role(2.0, "was shut by its gate") if values["gate"] < 0.05 else None
