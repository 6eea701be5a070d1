"""Laws of residuals: a stream that every sublayer is joined to, and that carries gradients through any depth."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from kit.component import Site
from kit.contracts.part import Part
from kit.contracts.residual import Residual
from kit.laws.batches import vectors
from kit.laws.comparing import close, finite, same
from kit.laws.law import broken, law
from kit.laws.setting import WIDTH, Setting
from kit.laws.subject import Subject, stir
from kit.laws.surroundings import PlainFeedforwardOptions

DEEP = 64
FADING, GROWING = 1e-4, 1e4
"""How much smaller or larger the gradient may be before the first layer than after the last."""


class Sublayers:
    """What stands in for the attention and the feed-forward of a layer; each token by itself."""

    def __init__(self, site: Site, setting: Setting) -> None:
        self.parts: dict[str, Part] = {}
        for name in site.sublayers:
            part: Part = site.at(role=name).build(PlainFeedforwardOptions(bias=False), setting.dims())
            self.parts[name] = part.double()
        self.calls: list[int] = []

    def functions(self) -> list[Any]:
        """One function a sublayer."""

        def apply(number: int, part: Part, x: Tensor) -> Tensor:
            self.calls.append(number)
            out: Tensor = part.transform(x)  # type: ignore[operator]
            return out

        return [partial(apply, number, part) for number, part in enumerate(self.parts.values())]


class Stream:
    """Layers of one residual with sublayers of their own, in float64."""

    def __init__(self, subject: Subject, setting: Setting, depth: int, stirred: bool = True) -> None:
        site = setting.site(subject.bench, "residual")
        self.residuals: list[Residual] = []
        self.sublayers: list[Sublayers] = []
        for layer in range(depth):
            here = replace(site, layer=layer, depth=depth, depths={site.stack: depth})
            torch.manual_seed(layer)
            self.residuals.append(here.build(setting.options, setting.dims()).double().eval())
            self.sublayers.append(Sublayers(here, setting))
        if stirred:
            stir(nn.ModuleList(self.residuals))
        for residual, sublayers in zip(self.residuals, self.sublayers, strict=True):
            residual.initialise(sublayers.parts)

    def __call__(self, x: Tensor) -> Tensor:
        """Through all layers."""
        x = self.residuals[0].enter(x)
        for residual, sublayers in zip(self.residuals, self.sublayers, strict=True):
            x = residual(x, sublayers.functions())
        return self.residuals[-1].leave(x)


@law("residual", "The stream has the shape of the tokens when it is left, in rows and packed.")
def shape(subject: Subject) -> None:
    """Through two layers."""
    for setting in subject.settings:
        stream = Stream(subject, setting, 2)
        for lead in ((2, 3), (5,), (1, 1)):
            x = vectors(*lead, WIDTH)
            out = stream(x)
            if out.shape != x.shape or out.dtype != x.dtype:
                broken(f"{setting.name}: gives {list(out.shape)} {out.dtype} for {list(x.shape)} {x.dtype}")


@law("residual", "Every sublayer is called once, in its order.")
def each_sublayer_once(subject: Subject) -> None:
    """Calling one twice would cost twice, and break its state."""
    for setting in subject.settings:
        stream = Stream(subject, setting, 2)
        stream(vectors(2, 3, WIDTH))
        for sublayers in stream.sublayers:
            if sublayers.calls != [0, 1]:
                broken(f"{setting.name}: sublayers were called in the order {sublayers.calls}, wanted [0, 1]")


@law("residual", "Every sublayer counts: what comes out depends on each of them and on what went in.")
def everything_joins(subject: Subject) -> None:
    """By their gradients."""
    for setting in subject.settings:
        stream = Stream(subject, setting, 2)
        x = vectors(2, 3, WIDTH).requires_grad_()
        (stream(x) * vectors(2, 3, WIDTH, seed=9)).sum().backward()
        for layer, sublayers in enumerate(stream.sublayers):
            for name, part in sublayers.parts.items():
                slopes = [parameter.grad for parameter in part.parameters()]
                if any(slope is None or not bool(slope.any()) for slope in slopes):
                    broken(f"{setting.name}: the {name} of layer {layer} has no influence")
        assert x.grad is not None
        if not bool(x.grad.any()):
            broken(f"{setting.name}: what goes in has no influence")


@law("residual", "Tokens do not mix: each gets what it would get by itself.")
def token_by_token(subject: Subject) -> None:
    """Sublayers here look at one token at a time, so nothing else may mix them."""
    for setting in subject.settings:
        stream = Stream(subject, setting, 2)
        x = vectors(2, 3, WIDTH)
        single = torch.stack([stream(each[None])[0] for each in x.flatten(0, 1)]).view_as(x)
        close(stream(x), single, setting.name)


def _identity(subject: Subject) -> str | None:
    assert issubclass(subject.component, Residual)
    return None if subject.component.starts_as_identity else "it does not declare to begin as the identity"


@law("residual", "A layer gives back what it is given until it is trained, where the part declares that.", _identity)
def identity_at_start(subject: Subject) -> None:
    """Bit for bit, at any depth."""
    for setting in subject.settings:
        for depth in (1, 12):
            stream = Stream(subject, setting, depth, stirred=False)
            x = vectors(2, 3, WIDTH)
            same(stream(x).detach(), x, f"{setting.name}, {depth} layers")


@law(
    "residual",
    f"Through {DEEP} layers gradients neither vanish nor explode: they change by less than {GROWING:g} times.",
)
def deep_gradients(subject: Subject) -> None:
    """As the part begins, with sublayers whose slopes have about the size of 1."""
    for setting in subject.settings:
        stream = Stream(subject, setting, DEEP, stirred=False)
        x = vectors(2, 3, WIDTH).requires_grad_()
        out = stream(x)
        finite(out, f"{setting.name}, {DEEP} layers")
        wanted = vectors(*out.shape, seed=2)
        (slope,) = torch.autograd.grad((out * wanted).sum(), x)
        finite(slope, f"{setting.name}: the gradient after {DEEP} layers")
        ratio = float(slope.norm() / wanted.norm())
        if not FADING < ratio < GROWING:
            broken(
                f"{setting.name}: the gradient changes by {ratio:.3g} through {DEEP} layers; "
                f"allowed is {FADING:g} to {GROWING:g}"
            )
