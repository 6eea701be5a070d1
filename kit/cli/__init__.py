"""The command `kit`: parses, calls, prints. Nothing here imports torch until a command needs it."""

from kit.cli.main import main

__all__ = ["main"]
