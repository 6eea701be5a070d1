"""SafeCheckpointIO: Lightning's checkpoints in the kit's format, so that Lightning pickles and unpickles nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TypeAlias

from pytorch_lightning.plugins.io import CheckpointIO

from kit.checkpoints.contents import Checkpoint, Snapshot, read_parts, write_parts
from kit.checkpoints.manifest import verify, write_manifest
from kit.files import atomic_folder
from kit.files.atomic import CheckpointError, DamagedCheckpoint, explain_os_errors

PathLike: TypeAlias = str | os.PathLike[str]


class SafeCheckpointIO(CheckpointIO):
    """Give it to a Trainer (`plugins=[SafeCheckpointIO()]`): a checkpoint is then a folder of safetensors and JSON.

    It reads what a `CheckpointStore` wrote as well: `trainer.fit(model, ckpt_path=store.load_latest().path)`.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: PathLike, storage_options: Any = None) -> None:
        """Write Lightning's dictionary as a folder; StorageError if it cannot be written."""
        if storage_options is not None:
            raise CheckpointError(f"storage options are not known here (found {storage_options!r}); leave them out.")
        target = Path(path)
        try:
            with explain_os_errors(target):
                temporary = atomic_folder.begin(target)
                write_parts(temporary, as_state(checkpoint))
                step = int(checkpoint.get("global_step", 0))
                write_manifest(temporary, step=step, sequence=0, score=None, world=1, run="")
                atomic_folder.publish(target)
        except BaseException:
            atomic_folder.discard(target)
            raise

    def load_checkpoint(
        self, path: PathLike, map_location: Any = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Lightning's dictionary from an intact checkpoint folder; tensors are on the CPU.

        `map_location` and `weights_only` change nothing: strategies move tensors, and nothing is ever unpickled.
        """
        folder = Path(path)
        if not folder.is_dir():
            kind = "a file" if folder.exists() else "nothing"
            raise CheckpointError(f"{folder}: found {kind}, wanted a checkpoint folder with a manifest.json.")
        try:
            return as_lightning(read_parts(folder, verify(folder)))
        except DamagedCheckpoint as error:
            raise DamagedCheckpoint(f"{folder} is damaged: {error}.") from error

    def remove_checkpoint(self, path: PathLike) -> None:
        """Remove a checkpoint folder."""
        target = Path(path)
        with explain_os_errors(target):
            if target.is_symlink() or target.is_file():
                target.unlink()
            elif target.is_dir():
                atomic_folder.remove(target)


def as_state(checkpoint: dict[str, Any], own: Any = None) -> Snapshot:
    """Convert Lightning's dictionary to what a `CheckpointStore` saves; own: the state of this rank alone."""
    rest = {key: value for key, value in checkpoint.items() if key != "state_dict"}
    return Snapshot(weights=dict(checkpoint.get("state_dict", {})), training=rest, own=own)


def as_lightning(checkpoint: Checkpoint) -> dict[str, Any]:
    """Convert a loaded checkpoint to Lightning's dictionary."""
    if not isinstance(checkpoint.training, dict):
        raise DamagedCheckpoint(f"its training state is a {type(checkpoint.training).__name__}, a dict is wanted")
    return {**checkpoint.training, "state_dict": checkpoint.weights}
