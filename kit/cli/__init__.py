"""The command-line interface `kit`; its modules import torch only when a command that needs it runs."""

from kit.cli.main import main

__all__ = ["main"]
