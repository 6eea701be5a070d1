"""Laws of residual streams: shape, contribution of every sublayer, and gradients through many layers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from kit.contracts.part import Part
from kit.contracts.sublayer import Residual
from kit.laws.assertions import close, finite, same
from kit.laws.batches import vectors
from kit.laws.law import broken, law
from kit.laws.reference_parts import ReferenceFeedforwardOptions
from kit.laws.setting import WIDTH, Setting
from kit.laws.subject import Subject, perturb
from kit.plugin.component import BuildContext

DEEP = 64
MIN_RATIO, MAX_RATIO = 1e-4, 1e4
"""The range of the gradient norm before the first layer, relative to that after the last."""


class Sublayers:
    """Token-wise sublayers that replace the attention and the feed-forward network of a layer."""

    def __init__(self, build_context: BuildContext, setting: Setting) -> None:
        self.parts: dict[str, Part] = {}
        for name in build_context.sublayers:
            part: Part = build_context.at(role=name).build(ReferenceFeedforwardOptions(bias=False), setting.dims())
            self.parts[name] = part.double()
        self.calls: list[int] = []

    def functions(self) -> list[Any]:
        """Returns the sublayers as functions."""

        def apply(number: int, part: Part, x: Tensor) -> Tensor:
            self.calls.append(number)
            out: Tensor = part.transform(x)  # type: ignore[operator]
            return out

        return [partial(apply, number, part) for number, part in enumerate(self.parts.values())]


class Stream:
    """A residual stream through several layers with their sublayers, in float64."""

    def __init__(self, subject: Subject, setting: Setting, depth: int, perturbed: bool = True) -> None:
        build_context = setting.build_context(subject.builder, "residual")
        self.residuals: list[Residual] = []
        self.sublayers: list[Sublayers] = []
        for layer in range(depth):
            layer_context = replace(build_context, layer=layer, depth=depth, depths={build_context.stack: depth})
            torch.manual_seed(layer)
            self.residuals.append(layer_context.build(setting.options, setting.dims()).double().eval())
            self.sublayers.append(Sublayers(layer_context, setting))
        if perturbed:
            perturb(nn.ModuleList(self.residuals))
        for residual, sublayers in zip(self.residuals, self.sublayers, strict=True):
            residual.initialise(sublayers.parts)

    def __call__(self, x: Tensor) -> Tensor:
        """Applies all layers."""
        x = self.residuals[0].begin_stream(x)
        for residual, sublayers in zip(self.residuals, self.sublayers, strict=True):
            x = residual(x, sublayers.functions())
        return self.residuals[-1].end_stream(x)


@law("residual", "The output of the stream has the shape and dtype of its input, padded and packed.")
def shape(subject: Subject) -> None:
    """Runs a stream of two layers on padded and packed shapes."""
    for setting in subject.settings:
        stream = Stream(subject, setting, 2)
        for lead in ((2, 3), (5,), (1, 1)):
            x = vectors(*lead, WIDTH)
            out = stream(x)
            if out.shape != x.shape or out.dtype != x.dtype:
                broken(f"{setting.name}: gives {list(out.shape)} {out.dtype} for {list(x.shape)} {x.dtype}")


@law("residual", "Every sublayer is called exactly once, in order.")
def each_sublayer_once(subject: Subject) -> None:
    """Records calls; a second call would cost twice, and update its cache twice."""
    for setting in subject.settings:
        stream = Stream(subject, setting, 2)
        stream(vectors(2, 3, WIDTH))
        for sublayers in stream.sublayers:
            if sublayers.calls != [0, 1]:
                broken(f"{setting.name}: sublayers were called in the order {sublayers.calls}, wanted [0, 1]")


@law("residual", "The output depends on every sublayer and on the input.")
def sublayers_contribute(subject: Subject) -> None:
    """Checks the gradients of sublayer parameters and of the input."""
    for setting in subject.settings:
        stream = Stream(subject, setting, 2)
        x = vectors(2, 3, WIDTH).requires_grad_()
        (stream(x) * vectors(2, 3, WIDTH, seed=9)).sum().backward()
        for layer, sublayers in enumerate(stream.sublayers):
            for name, part in sublayers.parts.items():
                gradients = [parameter.grad for parameter in part.parameters()]
                if any(gradient is None or not bool(gradient.any()) for gradient in gradients):
                    broken(f"{setting.name}: the {name} of layer {layer} has no influence")
        assert x.grad is not None
        if not bool(x.grad.any()):
            broken(f"{setting.name}: the input has no influence")


@law("residual", "Each token is independent of all others.")
def token_independence(subject: Subject) -> None:
    """Compares with tokens one by one; sublayers are token-wise, so that only the residual could mix tokens."""
    for setting in subject.settings:
        stream = Stream(subject, setting, 2)
        x = vectors(2, 3, WIDTH)
        single = torch.stack([stream(each[None])[0] for each in x.flatten(0, 1)]).view_as(x)
        close(stream(x), single, setting.name)


def _not_identity(subject: Subject) -> str | None:
    assert issubclass(subject.component, Residual)
    return None if subject.component.starts_as_identity else "it does not declare to be the identity at initialization"


@law("residual", "An untrained layer is the identity, if the part declares that.", _not_identity)
def identity_at_init(subject: Subject) -> None:
    """Compares input and output bit for bit, at depths 1 and 12."""
    for setting in subject.settings:
        for depth in (1, 12):
            stream = Stream(subject, setting, depth, perturbed=False)
            x = vectors(2, 3, WIDTH)
            same(stream(x).detach(), x, f"{setting.name}, {depth} layers")


@law(
    "residual",
    f"Gradients through {DEEP} layers neither vanish nor explode: their norm changes by less than {MAX_RATIO:g} times.",
)
def deep_gradients(subject: Subject) -> None:
    """Measures the ratio of gradient norms at initialization, with sublayers that nearly preserve norms."""
    for setting in subject.settings:
        stream = Stream(subject, setting, DEEP, perturbed=False)
        x = vectors(2, 3, WIDTH).requires_grad_()
        out = stream(x)
        finite(out, f"{setting.name}, {DEEP} layers")
        wanted = vectors(*out.shape, seed=2)
        (gradient,) = torch.autograd.grad((out * wanted).sum(), x)
        finite(gradient, f"{setting.name}: the gradient after {DEEP} layers")
        ratio = float(gradient.norm() / wanted.norm())
        if not MIN_RATIO < ratio < MAX_RATIO:
            broken(
                f"{setting.name}: the gradient changes by {ratio:.3g} through {DEEP} layers; "
                f"allowed is {MIN_RATIO:g} to {MAX_RATIO:g}"
            )
