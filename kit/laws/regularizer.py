"""Laws of regularizers: what they keep for each head, and that it follows the heads that are left."""

from __future__ import annotations

import torch

from kit.component import Dims, Site
from kit.contracts.regularizer import Regularizer
from kit.laws.law import broken, law
from kit.laws.subject import Subject

HEADS = {"encoder.0.attention": 4, "decoder.0.cross_attention": 3}
LEFT = {"encoder.0.attention": [0, 2], "decoder.0.cross_attention": [1]}


def _attached(subject: Subject, heads: dict[str, int]) -> Regularizer:
    made = subject.component(subject.options, Dims(12), Site(subject.bench, ("model", "regularizers", 0)))  # type: ignore[call-arg]
    assert isinstance(made, Regularizer)
    made.attach(heads)
    return made


@law("regularizer", "Gates are of heads that it was told of, one a head, each between closed (0) and open (1).")
def gates(subject: Subject) -> None:
    """Before any training."""
    made = _attached(subject, HEADS)
    for name, open_H in made.gates().items():
        if name not in HEADS or open_H.shape != (HEADS[name],):
            broken(f"there is a gate of shape {list(open_H.shape)} for {name}; wanted one for each of {HEADS}")
        if not bool(((open_H >= 0) & (open_H <= 1)).all()):
            broken(f"the gates of {name} are {open_H.tolist()}; wanted numbers from 0 to 1")


@law("regularizer", "Where heads are removed, what it kept for the others stays as it was.")
def heads_left(subject: Subject) -> None:
    """The parameters for the heads that are left fit one that is told of those alone, and open their gates as far."""
    made = _attached(subject, HEADS)
    with torch.no_grad():
        for number, parameter in enumerate(made.parameters()):
            parameter.copy_(torch.linspace(-1, 1 + number, parameter.numel()).view_as(parameter))
    smaller = _attached(subject, {name: len(chosen) for name, chosen in LEFT.items()})
    kept = made.with_heads(LEFT)
    wanted = {name: value.shape for name, value in smaller.state_dict().items()}
    if {name: value.shape for name, value in kept.items()} != wanted:
        shapes = {name: list(value.shape) for name, value in kept.items()}
        broken(f"with_heads gives {shapes}; wanted { ({name: list(shape) for name, shape in wanted.items()}) }")
    smaller.load_state_dict(kept)
    before, after = made.eval().gates(), smaller.eval().gates()
    for name, open_H in before.items():
        if not torch.equal(open_H[LEFT[name]], after[name]):
            broken(f"the gates of {name} were {open_H[LEFT[name]].tolist()} and are {after[name].tolist()}")
