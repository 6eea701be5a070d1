"""Laws for parts of every kind that are modules: gradients, precision, modes, saving, chance, devices, bad options."""

from __future__ import annotations

import copy
import io

import torch
from pydantic import ValidationError
from torch import Tensor, nn
from torch.autograd.gradcheck import GradcheckError

from kit.component import Site
from kit.errors import KitError
from kit.laws.batches import vectors
from kit.laws.comparing import close, finite, same
from kit.laws.law import EVERY_KIND, broken, law
from kit.laws.runs import RUNS, ask
from kit.laws.setting import LENGTH, Setting, settings
from kit.laws.subject import Subject
from kit.laws.trial import Trial, trials
from kit.laws.trying import sizes
from kit.model.blueprint import blueprint

STEP = 1e-5
HALF = 0.05
"""How far a pass in bfloat16 may lie from one in float32, by the root mean square, as a share of the result's."""


def _no_module(subject: Subject) -> str | None:
    return None if subject.component.kind in RUNS else "it has no parameters and gives no numbers"


@law(EVERY_KIND, "Every parameter gets a gradient, which is finite, and not zero throughout.", _no_module)
def gradients(subject: Subject) -> None:
    """In training, in every setting."""
    for trial in trials(subject):
        part = trial.build().train()
        (trial.run(part) * 1.5).sin().sum().backward()
        for name, parameter in part.named_parameters():
            if parameter.grad is None:
                broken(f"{trial.name}: the parameter {name} gets no gradient")
            finite(parameter.grad, f"{trial.name}: the gradient of {name}")
            if not bool(parameter.grad.any()):
                broken(f"{trial.name}: the gradient of {name} is zero throughout, so it would never be trained")


@law(EVERY_KIND, "Gradients are the slopes that small steps show, in float64.", _no_module)
def gradcheck(subject: Subject) -> None:
    """Of inputs along a random direction (torch's own check), of each parameter along its gradient."""
    for trial in trials(subject):
        part = trial.build()
        inputs = [each.clone().requires_grad_() for each in trial.inputs]

        def run(*values: Tensor, trial: Trial = trial, part: nn.Module = part) -> Tensor:
            return trial.call(part, *values)

        try:
            torch.autograd.gradcheck(run, inputs, fast_mode=True, check_undefined_grad=False)
        except GradcheckError as error:
            broken(f"{trial.name}: {str(error).splitlines()[0]}")
        _check_slopes(trial, part)


def _check_slopes(trial: Trial, part: nn.Module) -> None:
    """A small step along a gradient must change the result by the gradient's square.

    What a part keeps fixed on purpose, such as the vector of padding, has no gradient and so no part in the step.
    """
    out = trial.run(part)
    weights = vectors(*out.shape, seed=11)
    parameters = [parameter for parameter in part.parameters() if parameter.requires_grad]
    slopes = torch.autograd.grad((out * weights).sum(), parameters, allow_unused=True) if parameters else ()
    for (name, parameter), slope in zip(part.named_parameters(), slopes, strict=True):
        if slope is None or not bool(slope.any()):
            continue
        step = STEP / float(slope.norm())
        with torch.no_grad():
            ends = []
            for sign in (1, -1):
                parameter.add_(sign * step * slope)
                ends.append(float((trial.run(part) * weights).sum()))
                parameter.sub_(sign * step * slope)
        seen, wanted = (ends[0] - ends[1]) / (2 * step), float(slope.square().sum())
        if abs(seen - wanted) > 1e-4 * max(wanted, 1e-2):
            broken(f"{trial.name}: by the gradient of {name} a step changes {wanted:.6g}, and it changes {seen:.6g}")


@law(EVERY_KIND, "Under bfloat16 autocast the result stays close to that of float32.", _no_module)
def autocast(subject: Subject) -> None:
    """Within a few hundredths, and gradients are finite."""
    for trial in trials(subject):
        part = trial.build(stirred=False).float()
        exact = trial.run(part, torch.float32).detach()
        with torch.autocast("cpu", torch.bfloat16):
            rough = trial.run(part, torch.float32)
        finite(rough.detach(), f"{trial.name}, under autocast")
        if not exact.numel() or not bool(exact.any()):
            continue
        error = float((rough.detach().float() - exact).square().mean().sqrt() / exact.square().mean().sqrt())
        if error > HALF:
            broken(f"{trial.name}: under autocast the result is off by {error:.1%}; allowed is {HALF:.0%}")
        rough.float().sum().backward()
        for name, parameter in part.named_parameters():
            if parameter.grad is not None:
                finite(parameter.grad, f"{trial.name}, under autocast: the gradient of {name}")


@law(EVERY_KIND, "Out of training, results with gradients, without them and in inference mode agree.", _no_module)
def modes(subject: Subject) -> None:
    """And asking twice gives the same."""
    for trial in trials(subject):
        part = trial.build()
        wanted = trial.run(part).detach()
        with torch.no_grad():
            close(trial.run(part), wanted, f"{trial.name}, without gradients")
        with torch.inference_mode():
            close(trial.run(part).clone(), wanted, f"{trial.name}, in inference mode")
        close(trial.run(part), wanted, f"{trial.name}, asked again")


@law(EVERY_KIND, "Saved and loaded into a new part, or copied, it gives the same numbers.", _no_module)
def saving(subject: Subject) -> None:
    """Through a file that executes nothing."""
    for trial in trials(subject):
        part = trial.build()
        wanted = trial.run(part).detach()
        file = io.BytesIO()
        torch.save(part.state_dict(), file)
        file.seek(0)
        other = trial.build(seed=1)
        other.load_state_dict(torch.load(file, weights_only=True))
        same(trial.run(other).detach(), wanted, f"{trial.name}, loaded")
        same(trial.run(copy.deepcopy(part)).detach(), wanted, f"{trial.name}, copied")


@law(EVERY_KIND, "The same seed gives the same numbers, and out of training chance plays no part.", _no_module)
def seeds(subject: Subject) -> None:
    """Building, training with dropout, and use."""
    for trial in trials(subject):
        first, again = trial.build(seed=3, stirred=False, dropout=0.3), trial.build(seed=3, stirred=False, dropout=0.3)
        for (name, one), two in zip(first.named_parameters(), again.parameters(), strict=True):
            same(two, one, f"{trial.name}: {name}, built again from the same seed")
        runs = []
        for seed, training in ((4, False), (5, False), (6, True), (6, True)):
            torch.manual_seed(seed)
            first.train(training)
            runs.append(trial.run(first).detach())
        same(runs[1], runs[0], f"{trial.name}: out of training, after another seed")
        same(runs[3], runs[2], f"{trial.name}: in training, from the same seed")


@law(EVERY_KIND, "It runs on shapes without numbers, with the same shape of result.", _no_module)
def meta_device(subject: Subject) -> None:
    """Recipes are tried that way before they are trained."""
    for trial in trials(subject):
        with blueprint():
            part = trial.subject.bench.build(trial.setting.options, trial.setting.dims(), _site(trial))
            out = trial.call(part.double().eval(), *(each.to("meta") for each in trial.inputs))
        if not out.is_meta:
            broken(f"{trial.name}: on the meta device it gives numbers on {out.device}")


@law(EVERY_KIND, "Options that make no sense are refused when a recipe is read; others run.", once=True)
def bad_options(subject: Subject) -> None:
    """Every whole number of the options becomes 0, negative, odd and huge in turn."""
    component = subject.component
    # A stack may well be hundreds of layers deep; trying it would only take long.
    huge = () if component.kind == "stack" else (LENGTH + 44,)
    for name in sizes(component.options_type):
        for value in (0, -1, 1, 7, *huge):
            try:
                values = {**dict(subject.options), name: value}
                options = component.options_type.model_validate(values)
            except ValidationError:
                continue
            if value < 0:
                broken(f"{name}: {value} is accepted")
            for setting in settings(subject.bench, component, options):
                _try_on_meta(subject, setting, f"{setting.name}, {name}: {value}")


def _try_on_meta(subject: Subject, setting: Setting, what: str) -> None:
    kind = subject.component.kind
    inputs, call = RUNS[kind](subject, setting) if kind in RUNS else ((), ask)
    try:
        with blueprint(), torch.no_grad():
            part = subject.bench.build(setting.options, setting.dims(), setting.site(subject.bench, kind))
            call(part.double().eval() if isinstance(part, nn.Module) else part, *(each.to("meta") for each in inputs))
    except KitError:
        raise
    except Exception as error:
        broken(f"{what} is not refused, and then {type(error).__name__}: {error}")


def _site(trial: Trial) -> Site:
    return trial.setting.site(trial.subject.bench, trial.subject.component.kind)
