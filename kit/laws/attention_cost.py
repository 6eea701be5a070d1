"""Laws of what an attention costs, and of what a compiler makes of it."""

from __future__ import annotations

import torch
from torch import Tensor

from kit.contracts.attention import Attention
from kit.laws.attending import SHORT, Attending, Texts
from kit.laws.comparing import close
from kit.laws.growth import exponent, measure
from kit.laws.law import broken, law
from kit.laws.setting import WIDTH, Setting
from kit.laws.subject import Subject
from kit.layout import Layout
from kit.model.blueprint import blueprint
from kit.scope import Scope

LENGTHS = (1024, 2048, 4096)
LINEAR = 1.15
"""Growth up to this power of the length counts as linear."""


@law("attention", "Time and memory grow with the length of a text as the part declares.", once=True)
def growth(subject: Subject) -> None:
    """Operations and kept bytes are counted at three lengths, not timed."""
    assert issubclass(subject.component, Attention)
    declared = subject.component.abilities.cost
    for setting in [each for each in subject.settings if not each.places and not each.memory and not _dense(each)]:
        with blueprint():
            attending = Attending(subject, setting, stirred=False, length=LENGTHS[-1])

        def run(length: int, attending: Attending = attending) -> Tensor:
            x = torch.empty(1, length, WIDTH, dtype=torch.float64, device="meta", requires_grad=True)
            return attending(Texts(x))

        amounts = measure(attending.part, run, LENGTHS)
        for name, amount in zip(("work", "memory"), amounts, strict=True):
            power = exponent(LENGTHS, amount)
            if declared == "linear" and power > LINEAR:
                broken(
                    f"{setting.name}: {name} grows with length to the power {power:.2f}, and it declares linear cost"
                )
            if declared == "quadratic" and name == "work" and power <= LINEAR:
                broken(f'{setting.name}: work grows with length to the power {power:.2f}; declare cost="linear"')


def _claims_compiling(subject: Subject) -> str | None:
    assert issubclass(subject.component, Attention)
    return None if subject.component.abilities.compiles else "it does not claim that it can be compiled"


@law(
    "attention",
    "What torch.compile traces of it gives the same numbers, padding included.",
    _claims_compiling,
    once=True,
)
def traced(subject: Subject) -> None:
    """Without making machine code, which takes much longer."""
    compare_compiled(subject, "aot_eager", subject.settings[:1])


@law("attention", "torch.compile gives the same numbers, in every setting.", _claims_compiling, slow=True, once=True)
def compiled(subject: Subject) -> None:
    """With the compiler's own backend."""
    compare_compiled(subject, "inductor", subject.settings)


def compare_compiled(subject: Subject, backend: str, settings: list[Setting]) -> None:
    """Values and slopes, in float64."""
    for setting in settings:
        attending = Attending(subject, setting)
        texts = attending.texts((4, SHORT), memory=(5, 5))

        def run(x: Tensor, attending: Attending = attending, texts: Texts = texts) -> Tensor:
            shape = (x.shape[0], x.shape[1])
            queries = Layout(shape, x.device, texts.valid, facts=attending.facts(x, texts.valid))
            keys = queries if texts.memory is None else Layout((2, texts.memory.shape[1]), x.device)
            scope = Scope(queries, keys, attending.setting.mask, attending.position)
            out: Tensor = attending.part(x, texts.memory, scope)
            return out

        torch._dynamo.reset()
        results = []
        for function in (run, torch.compile(run, backend=backend)):
            x = texts.x.clone().requires_grad_()
            out = texts.real(function(x))
            out.sin().sum().backward()
            assert x.grad is not None
            results.append((out.detach(), x.grad))
        close(results[1][0], results[0][0], f"{setting.name}, compiled")
        close(results[1][1], results[0][1], f"{setting.name}, the gradient, compiled", 1e-8)


def _dense(setting: Setting) -> bool:
    """A mask that is any set of pairs has to be looked at pair by pair, whatever the attention does."""
    return setting.mask is not None and setting.mask.shape != "causal"
