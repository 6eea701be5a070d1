"""What Lightning is told of the processes that train together: that they are there, which this is, how they share."""

from __future__ import annotations

from typing import Any

import pytorch_lightning as lightning
from lightning_fabric.plugins.environments.cluster_environment import ClusterEnvironment
from pytorch_lightning.strategies import DDPStrategy, ModelParallelStrategy

from kit.recipe.training_section import TrainingSection
from kit.runs.lightning import SafeCheckpointIO
from kit.training.membership import Member
from kit.training.preflight import PATIENT


class Environment(ClusterEnvironment):
    """Processes that were started and connected before Lightning came."""

    def __init__(self, member: Member) -> None:
        self.member = member

    @property
    def creates_processes_externally(self) -> bool:
        """Always: Lightning starts nothing."""
        return True

    @property
    def main_address(self) -> str:
        """Where the first process is."""
        return self.member.address

    @property
    def main_port(self) -> int:
        """Where it listens."""
        return self.member.port

    @staticmethod
    def detect() -> bool:
        """Never found by itself; it is always given."""
        return False

    def world_size(self) -> int:
        """How many processes there are."""
        return self.member.size

    def set_world_size(self, size: int) -> None:
        """Known beforehand."""

    def global_rank(self) -> int:
        """Which of all this is."""
        return self.member.rank

    def set_global_rank(self, rank: int) -> None:
        """Known beforehand."""

    def local_rank(self) -> int:
        """Which of those on this machine this is."""
        return self.member.local_rank

    def node_rank(self) -> int:
        """Which machine this is."""
        return self.member.node


def is_sharded(training: TrainingSection, member: Member | None) -> bool:
    """Whether each process holds a piece of the model only."""
    return member is not None and training.strategy == "fsdp"


def options(training: TrainingSection, member: Member | None) -> dict[str, Any]:
    """What Lightning's Trainer is given, for one process or many."""
    if member is None:
        return {"strategy": "auto", "devices": 1, "num_nodes": 1, "plugins": [SafeCheckpointIO()]}
    shared: dict[str, Any] = {"devices": member.local_size, "num_nodes": member.nodes}
    if is_sharded(training, member):
        # Processes that share each layer have consecutive ranks, so they are on one node.
        strategy: Any = ModelParallelStrategy(
            data_parallel_size=member.size // training.tensor, tensor_parallel_size=training.tensor, timeout=PATIENT
        )
        return {**shared, "strategy": strategy, "plugins": [Environment(member)]}
    # A part may leave parameters out of a step, as a mixture does whose expert no token of this process chose.
    strategy = DDPStrategy(find_unused_parameters=True, gradient_as_bucket_view=True, timeout=PATIENT)
    return {**shared, "strategy": strategy, "plugins": [SafeCheckpointIO(), Environment(member)]}


def keep_signals(trainer: lightning.Trainer) -> None:
    """Lightning's answer to SIGTERM stops one process and leaves the others waiting; the kit has its own."""
    connector: Any = trainer._signal_connector
    connector.register_signal_handlers = lambda: None
