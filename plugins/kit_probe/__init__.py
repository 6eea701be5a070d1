"""Probes of attention: head measures, head distances and drawings, one a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit import hookimpl

if TYPE_CHECKING:
    from kit import Component

kit_api = 1


@hookimpl
def kit_components() -> list[type[Component]]:
    """The probes, imported on request."""
    from kit_probe.ablation import AblationProbe
    from kit_probe.alignment import AlignmentProbe
    from kit_probe.confidence import ConfidenceProbe
    from kit_probe.distance import DistanceProbe
    from kit_probe.entropy import EntropyProbe
    from kit_probe.flow import FlowProbe
    from kit_probe.gate import GateProbe
    from kit_probe.importance import ImportanceProbe
    from kit_probe.induction import InductionProbe
    from kit_probe.offset import OffsetProbe
    from kit_probe.position import PositionProbe
    from kit_probe.random import RandomProbe
    from kit_probe.rollout import RolloutProbe
    from kit_probe.saliency import SaliencyProbe
    from kit_probe.shuffled import ShuffledProbe
    from kit_probe.similarity import SimilarityProbe
    from kit_probe.special_tokens import SpecialTokensProbe

    return [
        AblationProbe,
        AlignmentProbe,
        ConfidenceProbe,
        DistanceProbe,
        EntropyProbe,
        FlowProbe,
        GateProbe,
        ImportanceProbe,
        InductionProbe,
        OffsetProbe,
        PositionProbe,
        RandomProbe,
        RolloutProbe,
        SaliencyProbe,
        ShuffledProbe,
        SimilarityProbe,
        SpecialTokensProbe,
    ]
