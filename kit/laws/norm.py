"""Laws of norms: each vector by itself, of any size."""

from __future__ import annotations

import torch

from kit.laws.batches import vectors
from kit.laws.comparing import close, finite
from kit.laws.law import broken, law
from kit.laws.setting import WIDTH
from kit.laws.subject import Subject


@law("norm", "The shape stays, for vectors in any number of rows.")
def shape(subject: Subject) -> None:
    """One vector, rows, rows of rows, none."""
    part = subject.build(subject.settings[0])
    for lead in ((), (3,), (2, 3), (2, 3, 4), (0,)):
        x = vectors(*lead, WIDTH)
        if part(x).shape != x.shape or part(x).dtype != x.dtype:
            broken(f"gives {list(part(x).shape)} {part(x).dtype} for {list(x.shape)} {x.dtype}")


@law("norm", "Each vector is normed by itself: no other vector of the batch has any influence.")
def vector_by_vector(subject: Subject) -> None:
    """In training too, since batch statistics would show there."""
    part = subject.build(subject.settings[0])
    x = vectors(3, 4, WIDTH)
    for training in (False, True):
        part.train(training)
        together = part(x)
        single = torch.stack([part(each) for each in x.flatten(0, 1)]).view_as(x)
        close(together, single, f"{'in training' if training else 'out of training'}")


@law("norm", "Zeros, huge and tiny vectors give finite numbers and finite gradients.")
def extremes(subject: Subject) -> None:
    """In float32, where there is less room."""
    part = subject.build(subject.settings[0]).float()
    for name, size in (("zeros", 0.0), ("tiny vectors", 1e-20), ("large vectors", 1e4), ("huge vectors", 1e15)):
        x = (size * vectors(3, WIDTH)).float().requires_grad_()
        out = part(x)
        finite(out, name)
        out.sum().backward()
        assert x.grad is not None
        finite(x.grad, f"the gradient of {name}")
