"""Law of tensor parallelism: the outputs of all shards sum to the output of the unsharded part."""

from __future__ import annotations

import torch
from torch import Tensor

from kit.contracts.part import Part
from kit.laws.assertions import close
from kit.laws.forward_pass import RUNS, ForwardPass, forward_passes
from kit.laws.law import EVERY_KIND, broken, law
from kit.laws.subject import Subject

WORLD_SIZE = 2


def _is_not_sharded(subject: Subject) -> str | None:
    if subject.component.kind not in RUNS or not issubclass(subject.component, Part):
        return "it is no module"
    if subject.component.tensor_parallel_shard is Part.tensor_parallel_shard:
        return "it has no tensor-parallel shard"
    found = (_shards(case, case.build()) for case in forward_passes(subject))
    return None if any(shards is not None for shards in found) else "it has no tensor-parallel shard"


def _shards(case: ForwardPass, part: torch.nn.Module) -> list[tuple[Part, Tensor | None]] | None:
    """Returns the shard of each rank and the bias that is added once; None if the part is not sharded."""
    assert isinstance(part, Part)
    shards: list[tuple[Part, Tensor | None]] = []
    for rank in range(WORLD_SIZE):
        shard = part.tensor_parallel_shard(rank, WORLD_SIZE)
        local = None if shard is None else shard.load_into(part)
        if shard is None or local is None:
            return None
        shards.append((local, shard.output_of(local).bias))
    return shards


@law(EVERY_KIND, "The outputs of two tensor-parallel shards sum to the output of the whole part, also in training.",
     _is_not_sharded)  # fmt: skip
def tensor_parallel(subject: Subject) -> None:
    """Sums outputs, with the last bias of one rank only; a shard must not add to the loss, which would count twice."""
    for case in forward_passes(subject):
        part = case.build(dropout=0.0)
        shards = _shards(case, part)
        if shards is None:
            continue
        for training in (False, True):
            outs = []
            for number, (local, bias) in enumerate(shards):
                if number and bias is not None:
                    bias.detach().zero_()
                outs.append(case.run(local.train(training)).detach())
                if local.losses:
                    broken(f"{case.name}: a shard adds {', '.join(local.losses)} to the loss, and so would every other")
            close(
                sum(outs, torch.zeros(())),
                case.run(part.train(training)).detach(),
                f"{case.name}, summed over shards",
            )
