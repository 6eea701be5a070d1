"""Laws of metrics: finite values, which are better for better answers."""

from __future__ import annotations

import math

from kit.contracts.metric import Answer, Metric, Results
from kit.laws.law import broken, law
from kit.laws.subject import Subject

_TEXTS = ("the cat sat on the mat", "a dog ran home again", "two birds sang all day long")
PERFECT = Results(0.5, 30, 30, [Answer("x", text, (text,)) for text in _TEXTS])
_POOR_TEXTS = {
    "wrong": ["no such words were ever seen here"] * len(_TEXTS),
    "too short": [text.split()[0] for text in _TEXTS],
    "too long": [f"{text} and no such words were ever seen here" for text in _TEXTS],
    "disordered": [" ".join(reversed(text.split())) for text in _TEXTS],
}
POOR = {
    kind: Results(90.0, 30, 3, [Answer("x", poor, (text,)) for poor, text in zip(texts, _TEXTS, strict=True)])
    for kind, texts in _POOR_TEXTS.items()
}
"""Answers that are wrong in one way each; a metric need not see every one of them."""


def _measure(subject: Subject, results: Results) -> float:
    assert issubclass(subject.component, Metric)
    return float(subject.component(subject.options).measure(results))


@law("metric", "The value is finite for perfect, poor and empty answers.")
def finite_value(subject: Subject) -> None:
    """Measures all of them; a fraction must be between 0 and 1, except for error rates, which may be above 1."""
    empty = Results(30.0, 30, 0, [Answer("x", "", (text,)) for text in _TEXTS])
    for name, results in {"perfect": PERFECT, **POOR, "empty": empty}.items():
        found = _measure(subject, results)
        if not math.isfinite(found):
            broken(f"{name} answers measure {found}")
        assert issubclass(subject.component, Metric)
        if subject.component.is_fraction and not subject.component.lower_is_better and not 0 <= found <= 1:
            broken(f"{name} answers measure {found}, and it declares a fraction")


@law("metric", "Perfect answers have a better value than poor ones, in the direction that the part declares.")
def direction(subject: Subject) -> None:
    """Compares with answers that are poor in several ways, of which a metric may see only some.

    BLEU's brevity penalty, for example, is as high for wrong words as for right ones. So there must be more ways in
    which perfect answers are better than ways in which they are worse. The direction decides the best checkpoint.
    """
    assert issubclass(subject.component, Metric)
    lower = subject.component.lower_is_better
    perfect = _measure(subject, PERFECT)
    values = {kind: _measure(subject, results) for kind, results in POOR.items()}
    better = [kind for kind, value in values.items() if (perfect < value if lower else perfect > value)]
    worse = [kind for kind, value in values.items() if (perfect > value if lower else perfect < value)]
    if len(better) <= len(worse):
        listed = ", ".join(f"{kind} ones {value:.4g}" for kind, value in values.items())
        wanted = "less" if lower else "more"
        broken(f"perfect answers measure {perfect:.4g}, {listed}; wanted {wanted} for perfect ones")
