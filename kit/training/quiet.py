"""Lightning without its advice: what matters is said by the kit itself."""

from __future__ import annotations

import logging
import warnings


def silence() -> None:
    """Keep Lightning's own messages to real trouble."""
    for name in ("pytorch_lightning", "lightning_fabric", "lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    for text in (
        ".*does not have many workers.*",
        ".*GPU available but not used.*",
        ".*isinstance\\(treespec, LeafSpec\\).*",
        ".*tensorboardX.*",
        ".*smaller than the logging interval.*",
        ".*Checkpoint directory .* exists.*",
        ".*srun.* command is available.*",
        ".*Trying to infer the .batch_size.*",
    ):
        warnings.filterwarnings("ignore", message=text)
