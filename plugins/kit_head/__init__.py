"""Heads: what is read off the last layer, one a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit import hookimpl

if TYPE_CHECKING:
    from kit import Component

kit_api = 1


@hookimpl
def kit_components() -> list[type[Component]]:
    """The parts, imported when they are asked for."""
    from kit_head.classes import ClassesHead
    from kit_head.language import LanguageHead
    from kit_head.masked import MaskedHead

    return [ClassesHead, LanguageHead, MaskedHead]
