"""Schedules at their edges, against values worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import kit_schedule
from kit import Schedule

PARTS: dict[str, Any] = {part.name(): part for part in kit_schedule.kit_components()}


def schedule(use: str, **options: Any) -> Schedule:
    part = PARTS[use]
    built = part(part.options_type(use=use, **options))
    assert isinstance(built, Schedule)
    return built


HALF = math.sqrt(0.5)
CASES = [
    # use, options, steps, {step: factor}
    ("constant", {}, 10, {0: 1, 5: 1, 9: 1, 100: 1}),
    ("constant", {"warmup": 4}, 10, {0: 0.25, 1: 0.5, 3: 1, 4: 1, 100: 1}),
    ("inverse_sqrt", {"warmup": 4}, 10, {0: 0.25, 2: 0.75, 3: 1, 7: HALF, 15: 0.5, 399: 0.1}),
    ("inverse_sqrt", {"warmup": 1}, 10, {0: 1, 3: 0.5}),
    ("inverse_sqrt", {"warmup": 4000, "width": 512}, 10, {0: 512**-0.5 * 4000**-1.5, 3999: 512**-0.5 * 4000**-0.5}),
    ("inverse_sqrt", {"warmup": 4000, "width": 512}, 10, {15999: 512**-0.5 * 16000**-0.5}),
    ("warmup_cosine", {"warmup": 2}, 10, {0: 0.5, 1: 1, 2: 1, 4: 0.5 + HALF / 2, 6: 0.5, 10: 0, 99: 0}),
    ("warmup_cosine", {}, 10, {0: 1, 5: 0.5, 9: 0.5 * (1 + math.cos(0.9 * math.pi)), 10: 0}),
    ("warmup_cosine", {"warmup": 2, "floor": 0.1}, 10, {0: 0.5, 1: 1, 6: 0.55, 10: 0.1, 99: 0.1}),
    ("warmup_linear", {"warmup": 2}, 10, {0: 0.5, 1: 1, 2: 1, 6: 0.5, 9: 0.125, 10: 0, 99: 0}),
    ("warmup_linear", {"floor": 0.2}, 4, {0: 1, 2: 0.6, 3: 0.4, 4: 0.2, 5: 0.2}),
    ("wsd", {"warmup": 10, "decay": 0.2}, 100, {0: 0.1, 9: 1, 80: 1, 81: 0.95, 90: 0.5, 99: 0.05, 100: 0, 999: 0}),
    ("wsd", {"decay": 0.2, "shape": "sqrt"}, 100, {80: 1, 85: 0.5, 90: 1 - HALF, 100: 0}),
    ("wsd", {"decay": 0.2, "floor": 0.5}, 100, {0: 1, 79: 1, 90: 0.75, 100: 0.5}),
    ("wsd", {"decay": 1.0}, 4, {0: 1, 1: 0.75, 3: 0.25, 4: 0}),
]  # fmt: skip


@pytest.mark.parametrize(("use", "options", "steps", "wanted"), CASES)
def test_hand_values(use: str, options: dict[str, Any], steps: int, wanted: dict[int, float]) -> None:
    made = schedule(use, **options)
    assert {step: made.factor(step, steps) for step in wanted} == pytest.approx(wanted, rel=1e-12, abs=1e-15)


@given(
    use=st.sampled_from(sorted(PARTS)),
    step=st.integers(0, 10**7),
    steps=st.integers(1, 10**6),
    warmup=st.integers(1, 10**5),
)
def test_every_factor_is_a_share_and_no_update_of_a_sound_training_is_wasted(
    use: str, step: int, steps: int, warmup: int
) -> None:
    made = schedule(use, warmup=warmup)
    assert 0.0 <= made.factor(step, steps) <= 1.0
    if step < steps:
        assert made.factor(step, steps) > 0.0
    assert made.factor(step, steps) == made.over(steps)(step)


@pytest.mark.parametrize("use", sorted(PARTS))
def test_a_resumed_schedule_has_the_rates_of_an_uninterrupted_one(use: str) -> None:
    def rates(
        optimizer: torch.optim.Optimizer, scheduler: torch.optim.lr_scheduler.LRScheduler, count: int
    ) -> list[float]:
        found = []
        for _ in range(count):
            optimizer.step()
            found.append(optimizer.param_groups[0]["lr"])
            scheduler.step()
        return found

    def fresh() -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LambdaLR]:
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.3)
        return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, schedule(use, warmup=5).over(20))

    whole = rates(*fresh(), 20)
    assert whole == [0.3 * schedule(use, warmup=5).factor(step, 20) for step in range(20)]
    optimizer, scheduler = fresh()
    first = rates(optimizer, scheduler, 8)
    saved = optimizer.state_dict(), scheduler.state_dict()
    optimizer, scheduler = fresh()
    optimizer.load_state_dict(saved[0])
    scheduler.load_state_dict(saved[1])
    assert first + rates(optimizer, scheduler, 12) == whole


def test_a_warm_up_that_leaves_no_training_is_named() -> None:
    for use in ("warmup_cosine", "warmup_linear", "wsd"):
        made = schedule(use, warmup=100)
        assert list(made.objections(1000)) == []
        (sentence,) = made.objections(100)
        assert "100 of 100" in sentence


@pytest.mark.parametrize(
    ("use", "options"), [("constant", {"warmup": -1}), ("inverse_sqrt", {"warmup": 0}), ("wsd", {"decay": 0}),
                         ("warmup_cosine", {"floor": 1.5}), ("warmup_linear", {"steps": 3})]
)  # fmt: skip
def test_wrong_options_are_refused(use: str, options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        schedule(use, **options)
