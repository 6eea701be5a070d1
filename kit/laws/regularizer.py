"""Laws of regularizers: gates of heads, and their parameters after head pruning."""

from __future__ import annotations

import torch

from kit.contracts.regularizer import Regularizer
from kit.laws.law import broken, law
from kit.laws.subject import Subject
from kit.plugin.component import BuildContext, Dims

HEADS = {"encoder.0.attention": 4, "decoder.0.cross_attention": 3}
REMAINING = {"encoder.0.attention": [0, 2], "decoder.0.cross_attention": [1]}


def _attached(subject: Subject, heads: dict[str, int]) -> Regularizer:
    part = subject.component(subject.options, Dims(12), BuildContext(subject.builder, ("model", "regularizers", 0)))  # type: ignore[call-arg]
    assert isinstance(part, Regularizer)
    part.attach(heads)
    return part


@law("regularizer", "There is one gate for each attached head, between 0 (closed) and 1 (open).")
def gates(subject: Subject) -> None:
    """Checks the shapes and ranges of initial gates."""
    regularizer = _attached(subject, HEADS)
    for name, open_H in regularizer.gates().items():
        if name not in HEADS or open_H.shape != (HEADS[name],):
            broken(f"there is a gate of shape {list(open_H.shape)} for {name}; wanted one for each of {HEADS}")
        if not bool(((open_H >= 0) & (open_H <= 1)).all()):
            broken(f"the gates of {name} are {open_H.tolist()}; wanted numbers from 0 to 1")


@law("regularizer", "After head pruning, the gates of the remaining heads are unchanged.")
def pruned_heads(subject: Subject) -> None:
    """Loads the selected parameters into a regularizer of the remaining heads, and compares gates."""
    regularizer = _attached(subject, HEADS)
    with torch.no_grad():
        for number, parameter in enumerate(regularizer.parameters()):
            parameter.copy_(torch.linspace(-1, 1 + number, parameter.numel()).view_as(parameter))
    pruned = _attached(subject, {name: len(chosen) for name, chosen in REMAINING.items()})
    selected = regularizer.select_heads(REMAINING)
    wanted = {name: value.shape for name, value in pruned.state_dict().items()}
    if {name: value.shape for name, value in selected.items()} != wanted:
        shapes = {name: list(value.shape) for name, value in selected.items()}
        broken(f"select_heads gives {shapes}; wanted { ({name: list(shape) for name, shape in wanted.items()}) }")
    pruned.load_state_dict(selected)
    before, after = regularizer.eval().gates(), pruned.eval().gates()
    for name, open_H in before.items():
        if not torch.equal(open_H[REMAINING[name]], after[name]):
            broken(f"the gates of {name} were {open_H[REMAINING[name]].tolist()} and are {after[name].tolist()}")
