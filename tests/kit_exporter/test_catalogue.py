"""Every part of the catalogue, in a small model: torch.export gives the same scores, or refuses it by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from models.exportable_models import exported, subject
from models.tiny_models import KIT

from kit import ModelSection, RecipeError
from kit.laws.matrix import FAMILIES, Matrix
from kit.recipe.slot_schema import bind
from kit_exporter.torch_export import TorchExportExporter, TorchExportOptions

MATRIX = Matrix(KIT.registry)
EXPORTER = TorchExportExporter(TorchExportOptions())
REFUSED = {
    ("attention", "block_sparse"): "its blocks depend on the length",
    ("attention", "fourier"): "a transform is of a length",
}
"""What has no form for all lengths, and why."""


def models(kind: str, name: str) -> list[dict[str, Any]]:
    """The families of one side in which a part can stand."""
    return [
        MATRIX.recipe(chosen)
        for family in FAMILIES[:2]
        if not MATRIX.check(chosen := replace(MATRIX.neutral, **{kind: name, "family": family}))
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind in ("attention", "position", "residual", "mask") for name in MATRIX.names(kind)],
    ids=lambda value: str(value),
)
def test_every_part_is_exported_or_refused_by_name(kind: str, name: str) -> None:
    found = models(kind, name)
    assert found
    for model in found:
        given = subject(bind(ModelSection, KIT.registry).model_validate(model), spread=0.0)
        if (kind, name) in REFUSED:
            with pytest.raises(RecipeError, match=f"the {kind} {name} cannot be traced"):
                exported(EXPORTER, given)
        else:
            (check,) = exported(EXPORTER, given)
            assert check.passed and check.difference < 1e-5
