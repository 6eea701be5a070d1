"""What is said when a stored checkpoint is not what was written."""

from __future__ import annotations

from kit.errors import KitError


class CheckpointError(KitError):
    """A checkpoint cannot be written as asked, or no usable one is there."""


class DamagedCheckpoint(CheckpointError):
    """A checkpoint differs from what was written: a part is missing, cut short, altered or from another checkpoint."""


class DamagedCheckpointWarning(UserWarning):
    """A damaged checkpoint was passed over for the one before it."""
