"""Laws of schedules: a pure function of the step, with rates that an optimizer can use."""

from __future__ import annotations

import math

from kit.contracts.schedule import Schedule
from kit.laws.law import broken, law
from kit.laws.subject import Subject

STEPS = (1, 2, 10, 1000)


def _made(subject: Subject) -> Schedule:
    assert issubclass(subject.component, Schedule)
    return subject.component(subject.options)


@law("schedule", "The factor is finite and not negative at every step, also past the last one.")
def usable(subject: Subject) -> None:
    """For trainings of any length that it does not object to."""
    schedule = _made(subject)
    for steps in STEPS:
        if any(schedule.objections(steps)):
            continue
        for step in {0, 1, steps // 2, steps - 1, steps, 2 * steps}:
            factor = schedule.factor(step, steps)
            if not math.isfinite(factor) or factor < 0:
                broken(f"step {step} of {steps}: the factor is {factor}; wanted a finite number, 0 or more")


@law("schedule", "A step has one factor, whichever steps were asked for before: a resumed run has the rates it had.")
def pure(subject: Subject) -> None:
    """Forwards, backwards, and by a new one."""
    asked = _made(subject)
    steps = STEPS[-1]
    forwards = [asked.factor(step, steps) for step in range(0, steps, 37)]
    backwards = [asked.factor(step, steps) for step in reversed(range(0, steps, 37))][::-1]
    anew = [_made(subject).factor(step, steps) for step in range(0, steps, 37)]
    for number, (one, two, three) in enumerate(zip(forwards, backwards, anew, strict=True)):
        if not one == two == three:
            broken(f"step {37 * number} has the factor {one}, asked again {two}, and in a new schedule {three}")
