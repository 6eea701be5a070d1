"""Packages that only exporting needs, and what to type where one is missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from kit import KitError


def imported(package: str) -> Any:
    """The package; an error that says how to install it, where it is not there."""
    try:
        return import_module(package)
    except ImportError as error:
        hint = "pip install 'kitformer[export]'"
        raise KitError(f"exporting needs {package}, which is missing: {hint}") from error
