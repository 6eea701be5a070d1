"""What `kit train --dry-run` measures is what would be trained."""

from __future__ import annotations

import pytest
import torch

from kit.training import dry_run


def test_it_computes_in_the_precision_of_the_recipe_and_averages(tiny, kit, monkeypatch: pytest.MonkeyPatch):
    seen: set[torch.dtype] = set()
    updates: list[int] = []
    known = torch.nn.functional.linear

    def linear(x, weight, bias=None):
        out = known(x, weight, bias)
        seen.add(out.dtype)
        return out

    class EMA(dry_run.EMA):
        def update(self, step):
            updates.append(step)
            super().update(step)

    monkeypatch.setattr(torch.nn.functional, "linear", linear)
    monkeypatch.setattr(dry_run, "EMA", EMA)
    dry_run.plan_training(tiny(), kit)
    assert torch.bfloat16 not in seen and updates == []
    dry_run.plan_training(tiny("training.precision=bfloat16", "training.average={ema: 0.9}"), kit)
    assert torch.bfloat16 in seen and updates == [1, 2, 3, 4, 5]


def test_it_says_what_memory_is_of_where_a_process_would_hold_less(tiny, kit):
    many = ["training.devices=2", "training.accelerator=cpu"]
    assert "whole model" not in dry_run.plan_training(tiny(*many), kit).machine
    assert (
        "memory are of the whole model on one"
        in dry_run.plan_training(tiny(*many, "training.strategy=fsdp"), kit).machine
    )


def test_it_says_that_what_is_wanted_is_not_here_and_what_was_measured_instead(tiny, kit, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    measured = ": time and memory are of one process with 1 CPU thread"

    def machine(*changes: str) -> str:
        return dry_run.plan_training(tiny(*changes), kit).machine

    many = machine("training.accelerator=gpu", "training.devices=8")
    assert many == f"8 GPUs are wanted, and there is none here{measured}"
    assert machine("training.accelerator=gpu") == f"1 GPU is wanted, and there is none here{measured}"
    assert machine("training.accelerator=mps") == f"MPS is wanted, and there is none here{measured}"
    nodes = machine("training.accelerator=gpu", "training.devices=4", "training.nodes=2")
    assert nodes == f"8 GPUs on 2 nodes are wanted, and there is none here{measured}"
    assert machine("training.accelerator=auto", "training.devices=2") == "2 processes, each with 1 CPU thread"
