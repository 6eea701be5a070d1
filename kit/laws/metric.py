"""Laws of metrics: finite values, which are better for better answers."""

from __future__ import annotations

import math

from kit.contracts.metric import Answer, Metric, Results
from kit.laws.law import broken, law
from kit.laws.subject import Subject

_TEXTS = ("the cat sat on the mat", "a dog ran home again", "two birds sang all day long")
PERFECT = Results(0.5, 30, 30, [Answer("x", text, (text,)) for text in _TEXTS])
POOR = Results(90.0, 30, 3, [Answer("x", "no such words were ever seen here", (text,)) for text in _TEXTS])


def _measure(subject: Subject, results: Results) -> float:
    assert issubclass(subject.component, Metric)
    return float(subject.component(subject.options).measure(results))


@law("metric", "The value is finite for perfect, poor and empty answers.")
def finite_value(subject: Subject) -> None:
    """Measures all three; a fraction must be between 0 and 1, except for error rates, which may be above 1."""
    empty = Results(30.0, 30, 0, [Answer("x", "", (text,)) for text in _TEXTS])
    for name, results in (("perfect", PERFECT), ("poor", POOR), ("empty", empty)):
        found = _measure(subject, results)
        if not math.isfinite(found):
            broken(f"{name} answers measure {found}")
        assert issubclass(subject.component, Metric)
        if subject.component.is_fraction and not subject.component.lower_is_better and not 0 <= found <= 1:
            broken(f"{name} answers measure {found}, and it declares a fraction")


@law("metric", "Perfect answers have a better value than poor ones, in the direction that the part declares.")
def direction(subject: Subject) -> None:
    """Compares both in the direction of `lower_is_better`, which decides the best checkpoint."""
    assert issubclass(subject.component, Metric)
    perfect, poor = _measure(subject, PERFECT), _measure(subject, POOR)
    lower = subject.component.lower_is_better
    if not (perfect < poor if lower else perfect > poor):
        wanted = "less" if lower else "more"
        broken(f"perfect answers measure {perfect:.4g} and poor ones {poor:.4g}; wanted {wanted} for perfect ones")
