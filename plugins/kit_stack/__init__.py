"""Stacks of Transformer layers; one file each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit import hookimpl

if TYPE_CHECKING:
    from kit import Component

kit_api = 1


@hookimpl
def kit_components() -> list[type[Component]]:
    """The parts of this plugin, imported on first use."""
    from kit_stack.transformer import TransformerStack
    from kit_stack.universal import UniversalStack

    return [TransformerStack, UniversalStack]
