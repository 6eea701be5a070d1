"""Lightning's Trainer: it runs the loop; logging, checkpoints, sampling and signals are the kit's own."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytorch_lightning as lightning
from lightning_fabric.plugins.environments.cluster_environment import ClusterEnvironment
from pytorch_lightning.strategies import DDPStrategy, ModelParallelStrategy

from kit.checkpoints.lightning import SafeCheckpointIO
from kit.distributed.process_group import COLLECTIVE_TIMEOUT
from kit.distributed.rank_info import RankInfo
from kit.recipe.sections import TrainingSection

_PRECISIONS: dict[str, Any] = {"float32": "32-true", "bfloat16": "bf16-mixed", "float16": "16-mixed"}


def build_trainer(
    training: TrainingSection, callbacks: Sequence[lightning.Callback], folder: Path, rank_info: RankInfo | None
) -> lightning.Trainer:
    """Build the Trainer for one process or for one rank of many, with Lightning's own output turned off."""
    trainer = lightning.Trainer(
        accelerator=training.accelerator,
        **_strategy_options(training, rank_info),
        precision=_PRECISIONS[training.precision],
        max_epochs=1,
        accumulate_grad_batches=training.accumulate_steps,
        callbacks=list(callbacks),
        default_root_dir=folder,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        limit_val_batches=0,
        use_distributed_sampler=False,
    )
    # Lightning's answer to SIGTERM stops one process and leaves the others waiting; `Interruption` stops them together.
    connector: Any = trainer._signal_connector
    connector.register_signal_handlers = lambda: None
    return trainer


def is_sharded(training: TrainingSection, rank_info: RankInfo | None) -> bool:
    """Whether each rank holds a shard of the model only."""
    return rank_info is not None and training.strategy == "fsdp"


def _strategy_options(training: TrainingSection, rank_info: RankInfo | None) -> dict[str, Any]:
    if rank_info is None:
        return {"strategy": "auto", "devices": 1, "num_nodes": 1, "plugins": [SafeCheckpointIO()]}
    shared: dict[str, Any] = {"devices": rank_info.local_world_size, "num_nodes": rank_info.nodes}
    if is_sharded(training, rank_info):
        # The ranks of a tensor-parallel group are consecutive, so they are on one node.
        strategy: Any = ModelParallelStrategy(
            data_parallel_size=rank_info.world_size // training.tensor_parallel,
            tensor_parallel_size=training.tensor_parallel,
            timeout=COLLECTIVE_TIMEOUT,
        )
        return {**shared, "strategy": strategy, "plugins": [StartedEnvironment(rank_info)]}
    # A part may leave parameters out of a step, as a mixture of experts does where no token of this rank chose one.
    strategy = DDPStrategy(find_unused_parameters=True, gradient_as_bucket_view=True, timeout=COLLECTIVE_TIMEOUT)
    return {**shared, "strategy": strategy, "plugins": [SafeCheckpointIO(), StartedEnvironment(rank_info)]}


class StartedEnvironment(ClusterEnvironment):
    """Lightning's cluster environment for processes that are started and connected before Lightning is used."""

    def __init__(self, rank_info: RankInfo) -> None:
        self.rank_info = rank_info

    @property
    def creates_processes_externally(self) -> bool:
        """Always: Lightning starts nothing."""
        return True

    @property
    def main_address(self) -> str:
        """The host of rank 0."""
        return self.rank_info.address

    @property
    def main_port(self) -> int:
        """The port of rank 0."""
        return self.rank_info.port

    @staticmethod
    def detect() -> bool:
        """Never detected: it is always given."""
        return False

    def world_size(self) -> int:
        """The number of processes."""
        return self.rank_info.world_size

    def set_world_size(self, size: int) -> None:
        """Nothing: it is known."""

    def global_rank(self) -> int:
        """The rank among all processes."""
        return self.rank_info.rank

    def set_global_rank(self, rank: int) -> None:
        """Nothing: it is known."""

    def local_rank(self) -> int:
        """The rank among the processes of this node."""
        return self.rank_info.local_rank

    def node_rank(self) -> int:
        """The rank of this node."""
        return self.rank_info.node


def silence_lightning() -> None:
    """Turn off Lightning's advice; its errors stay."""
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
