"""Token embeddings; one file each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit import hookimpl

if TYPE_CHECKING:
    from kit import Component

kit_api = 1


@hookimpl
def kit_components() -> list[type[Component]]:
    """The parts of this plugin, imported on first use."""
    from kit_embedding.characters import CharactersEmbedding
    from kit_embedding.factorized import FactorizedEmbedding
    from kit_embedding.pretrained import PretrainedEmbedding
    from kit_embedding.segmented import SegmentedEmbedding
    from kit_embedding.token import TokenEmbedding

    return [CharactersEmbedding, FactorizedEmbedding, PretrainedEmbedding, SegmentedEmbedding, TokenEmbedding]
