"""The law of parts that processes can share: what each of them gives with its share sums to what the whole gives."""

from __future__ import annotations

import torch
from torch import Tensor

from kit.contracts.part import Part
from kit.laws.comparing import close
from kit.laws.law import EVERY_KIND, broken, law
from kit.laws.runs import RUNS
from kit.laws.subject import Subject
from kit.laws.trial import Trial, trials

OF = 2


def _stays_whole(subject: Subject) -> str | None:
    if subject.component.kind not in RUNS or not issubclass(subject.component, Part):
        return "it has no parameters and gives no numbers"
    if subject.component.divided is Part.divided:
        return "every process has it whole"
    found = (_shares(trial, trial.build()) for trial in trials(subject))
    return None if any(shares is not None for shares in found) else "every process has it whole"


def _shares(trial: Trial, part: torch.nn.Module) -> list[tuple[Part, Tensor | None]] | None:
    """The part of each share, and the bias that is added once; None where it stays whole."""
    assert isinstance(part, Part)
    shares: list[tuple[Part, Tensor | None]] = []
    for share in range(OF):
        division = part.divided(share, OF)
        held = None if division is None else division.held(part)
        if division is None or held is None:
            return None
        shares.append((held, division.end_of(held).bias))
    return shares


@law(EVERY_KIND, "Shared by two processes, what they give sums to what it gives alone, in use and in training.",
     _stays_whole)  # fmt: skip
def divides(subject: Subject) -> None:
    """With the bias of the last layer added once; and no share adds to the loss, which would count twice."""
    for trial in trials(subject):
        part = trial.build(dropout=0.0)
        made = _shares(trial, part)
        if made is None:
            continue
        for training in (False, True):
            outs = []
            for number, (held, bias) in enumerate(made):
                if number and bias is not None:
                    bias.detach().zero_()
                outs.append(trial.run(held.train(training)).detach())
                if held.losses:
                    broken(f"{trial.name}: a share adds {', '.join(held.losses)} to the loss, and so would every other")
            close(sum(outs, torch.zeros(())), trial.run(part.train(training)).detach(), f"{trial.name}, summed")
