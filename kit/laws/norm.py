"""Laws of norms: shape, independence of tokens and numerical range."""

from __future__ import annotations

import torch

from kit.laws.assertions import close, finite
from kit.laws.batches import vectors
from kit.laws.law import broken, law
from kit.laws.setting import WIDTH
from kit.laws.subject import Subject


@law("norm", "The output has the shape and dtype of the input, for any leading axes.")
def shape(subject: Subject) -> None:
    """Normalises tensors of zero to three leading axes, and without vectors."""
    part = subject.build(subject.settings[0])
    for lead in ((), (3,), (2, 3), (2, 3, 4), (0,)):
        x = vectors(*lead, WIDTH)
        if part(x).shape != x.shape or part(x).dtype != x.dtype:
            broken(f"gives {list(part(x).shape)} {part(x).dtype} for {list(x.shape)} {x.dtype}")


@law("norm", "Each vector is normalised independently of all others.")
def token_independence(subject: Subject) -> None:
    """Compares with vectors one by one, also in training, where batch statistics would be used."""
    part = subject.build(subject.settings[0])
    x = vectors(3, 4, WIDTH)
    for training in (False, True):
        part.train(training)
        batched = part(x)
        single = torch.stack([part(each) for each in x.flatten(0, 1)]).view_as(x)
        close(batched, single, f"{'in training' if training else 'out of training'}")


@law("norm", "Zero, tiny and huge vectors give finite outputs and gradients.")
def numerical_range(subject: Subject) -> None:
    """Runs forward and backward in float32."""
    part = subject.build(subject.settings[0]).float()
    for name, size in (("zeros", 0.0), ("tiny vectors", 1e-20), ("large vectors", 1e4), ("huge vectors", 1e15)):
        x = (size * vectors(3, WIDTH)).float().requires_grad_()
        out = part(x)
        finite(out, name)
        out.sum().backward()
        assert x.grad is not None
        finite(x.grad, f"the gradient of {name}")
