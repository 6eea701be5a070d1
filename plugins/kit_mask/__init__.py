"""Masks; one file each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit import hookimpl

if TYPE_CHECKING:
    from kit import Component

kit_api = 1


@hookimpl
def kit_components() -> list[type[Component]]:
    """The parts of this plugin, imported on first use."""
    from kit_mask.all import AllMask
    from kit_mask.any import AnyMask
    from kit_mask.causal import CausalMask
    from kit_mask.chunked import ChunkedMask
    from kit_mask.dilated import DilatedMask
    from kit_mask.document import DocumentMask
    from kit_mask.global_tokens import GlobalTokensMask
    from kit_mask.not_ import NotMask
    from kit_mask.prefix import PrefixMask
    from kit_mask.random_blocks import RandomBlocksMask
    from kit_mask.strided import StridedMask
    from kit_mask.window import WindowMask

    return [
        AllMask,
        AnyMask,
        CausalMask,
        ChunkedMask,
        DilatedMask,
        DocumentMask,
        GlobalTokensMask,
        NotMask,
        PrefixMask,
        RandomBlocksMask,
        StridedMask,
        WindowMask,
    ]
