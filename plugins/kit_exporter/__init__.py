"""Exporter: trained models for other inference engines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit import hookimpl

if TYPE_CHECKING:
    from kit import Component

kit_api = 1


@hookimpl
def kit_components() -> list[type[Component]]:
    """The parts, import_or_raise when they are asked for."""
    from kit_exporter.ctranslate2 import Ctranslate2Exporter
    from kit_exporter.onnx import OnnxExporter
    from kit_exporter.safetensors import SafetensorsExporter
    from kit_exporter.torch_export import TorchExportExporter

    return [Ctranslate2Exporter, OnnxExporter, SafetensorsExporter, TorchExportExporter]
