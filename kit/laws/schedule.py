"""Laws of schedules: finite factors, as a pure function of the step."""

from __future__ import annotations

import math

from kit.contracts.schedule import Schedule
from kit.laws.law import broken, law
from kit.laws.subject import Subject

STEPS = (1, 2, 10, 1000)


def _schedule(subject: Subject) -> Schedule:
    assert issubclass(subject.component, Schedule)
    return subject.component(subject.options)


@law("schedule", "The factor is finite and not negative at every step, also after the last one.")
def finite_factor(subject: Subject) -> None:
    """Computes factors for all numbers of steps that the schedule accepts."""
    schedule = _schedule(subject)
    for steps in STEPS:
        if any(schedule.objections(steps)):
            continue
        for step in {0, 1, steps // 2, steps - 1, steps, 2 * steps}:
            factor = schedule.factor(step, steps)
            if not math.isfinite(factor) or factor < 0:
                broken(f"step {step} of {steps}: the factor is {factor}; wanted a finite number, 0 or more")


@law("schedule", "The factor only depends on the step, so that a resumed run has the same learning rates.")
def stateless(subject: Subject) -> None:
    """Compares factors computed forwards, backwards, and by a new schedule."""
    schedule = _schedule(subject)
    steps = STEPS[-1]
    forwards = [schedule.factor(step, steps) for step in range(0, steps, 37)]
    backwards = [schedule.factor(step, steps) for step in reversed(range(0, steps, 37))][::-1]
    recomputed = [_schedule(subject).factor(step, steps) for step in range(0, steps, 37)]
    for number, (one, two, three) in enumerate(zip(forwards, backwards, recomputed, strict=True)):
        if not one == two == three:
            broken(f"step {37 * number} has the factor {one}, repeated {two}, and in a new schedule {three}")
