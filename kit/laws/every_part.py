"""Laws of every part: gradients, autocast, modes, state dicts, reproducibility, meta device, invalid options."""

from __future__ import annotations

import copy
import io

import torch
from pydantic import ValidationError
from torch import Tensor, nn
from torch.autograd.gradcheck import GradcheckError

from kit.errors import KitError
from kit.laws.assertions import close, finite, same
from kit.laws.batches import vectors
from kit.laws.forward_pass import RUNS, ForwardPass, attention_mask_of, forward_passes
from kit.laws.law import EVERY_KIND, broken, law
from kit.laws.option_grid import sizes
from kit.laws.setting import LENGTH, Setting, settings
from kit.laws.subject import Subject
from kit.model.builder import meta_init
from kit.plugin.component import BuildContext

STEP = 1e-5
"""The step of finite differences."""
MAX_BF16_ERROR = 0.05
"""The largest root mean square error of a pass under bfloat16 autocast, relative to the result in float32."""


def _is_no_module(subject: Subject) -> str | None:
    return None if subject.component.kind in RUNS else "it is no module"


@law(EVERY_KIND, "Every parameter gets a finite gradient that is not zero everywhere.", _is_no_module)
def gradients(subject: Subject) -> None:
    """Runs forward and backward in training, in every setting."""
    for case in forward_passes(subject):
        part = case.build().train()
        (case.run(part) * 1.5).sin().sum().backward()
        for name, parameter in part.named_parameters():
            if parameter.grad is None:
                broken(f"{case.name}: the parameter {name} gets no gradient")
            finite(parameter.grad, f"{case.name}: the gradient of {name}")
            if not bool(parameter.grad.any()):
                broken(f"{case.name}: the gradient of {name} is zero everywhere, so it would never be trained")


@law(EVERY_KIND, "Gradients equal finite differences, in float64.", _is_no_module)
def gradcheck(subject: Subject) -> None:
    """Checks input gradients by torch.autograd.gradcheck, and parameter gradients along themselves."""
    for case in forward_passes(subject):
        part = case.build()
        inputs = [each.clone().requires_grad_() for each in case.inputs]

        def run(*values: Tensor, case: ForwardPass = case, part: nn.Module = part) -> Tensor:
            return case.call(part, *values)

        try:
            torch.autograd.gradcheck(run, inputs, fast_mode=True, check_undefined_grad=False)
        except GradcheckError as error:
            broken(f"{case.name}: {str(error).splitlines()[0]}")
        _check_parameter_gradients(case, part)


def _check_parameter_gradients(case: ForwardPass, part: nn.Module) -> None:
    """Compares the change of the output after a small step along a gradient with the squared norm of the gradient.

    Parameters that are fixed on purpose, such as the vector of padding, have no gradient and are not changed.
    """
    out = case.run(part)
    weights = vectors(*out.shape, seed=11)
    parameters = [parameter for parameter in part.parameters() if parameter.requires_grad]
    parameter_gradients = (
        torch.autograd.grad((out * weights).sum(), parameters, allow_unused=True) if parameters else ()
    )
    for (name, parameter), gradient in zip(part.named_parameters(), parameter_gradients, strict=True):
        if gradient is None or not bool(gradient.any()):
            continue
        step = STEP / float(gradient.norm())
        with torch.no_grad():
            ends = []
            for sign in (1, -1):
                parameter.add_(sign * step * gradient)
                ends.append(float((case.run(part) * weights).sum()))
                parameter.sub_(sign * step * gradient)
        actual, expected = (ends[0] - ends[1]) / (2 * step), float(gradient.square().sum())
        if abs(actual - expected) > 1e-4 * max(expected, 1e-2):
            broken(f"{case.name}: by the gradient of {name} a step changes {expected:.6g}, and it changes {actual:.6g}")


@law(EVERY_KIND, "Under bfloat16 autocast the result is close to that of float32.", _is_no_module)
def autocast(subject: Subject) -> None:
    """Limits the relative error of outputs, and checks that gradients are finite."""
    for case in forward_passes(subject):
        part = case.build(perturbed=False).float()
        exact = case.run(part, torch.float32).detach()
        with torch.autocast("cpu", torch.bfloat16):
            rough = case.run(part, torch.float32)
        finite(rough.detach(), f"{case.name}, under autocast")
        if not exact.numel() or not bool(exact.any()):
            continue
        error = float((rough.detach().float() - exact).square().mean().sqrt() / exact.square().mean().sqrt())
        if error > MAX_BF16_ERROR:
            broken(f"{case.name}: under autocast the result is off by {error:.1%}; allowed is {MAX_BF16_ERROR:.0%}")
        rough.float().sum().backward()
        for name, parameter in part.named_parameters():
            if parameter.grad is not None:
                finite(parameter.grad, f"{case.name}, under autocast: the gradient of {name}")


@law(EVERY_KIND, "In evaluation mode, results with grad, without grad and in inference mode agree.", _is_no_module)
def grad_modes(subject: Subject) -> None:
    """Compares passes in all three modes, and a repeated one."""
    for case in forward_passes(subject):
        part = case.build()
        wanted = case.run(part).detach()
        with torch.no_grad():
            close(case.run(part), wanted, f"{case.name}, without gradients")
        with torch.inference_mode():
            close(case.run(part).clone(), wanted, f"{case.name}, in inference mode")
        close(case.run(part), wanted, f"{case.name}, repeated")


@law(EVERY_KIND, "Saved and loaded into a new part, or copied, it gives the same results.", _is_no_module)
def state_dict(subject: Subject) -> None:
    """Loads the state dict with weights_only into a part with another seed."""
    for case in forward_passes(subject):
        part = case.build()
        wanted = case.run(part).detach()
        file = io.BytesIO()
        torch.save(part.state_dict(), file)
        file.seek(0)
        other = case.build(seed=1)
        other.load_state_dict(torch.load(file, weights_only=True))
        same(case.run(other).detach(), wanted, f"{case.name}, loaded")
        same(case.run(copy.deepcopy(part)).detach(), wanted, f"{case.name}, copied")


@law(EVERY_KIND, "The same seed gives the same results, and evaluation mode is deterministic.", _is_no_module)
def reproducibility(subject: Subject) -> None:
    """Compares initial parameters, outputs in training with dropout, and outputs in evaluation."""
    for case in forward_passes(subject):
        first, again = (
            case.build(seed=3, perturbed=False, dropout=0.3),
            case.build(seed=3, perturbed=False, dropout=0.3),
        )
        for (name, one), two in zip(first.named_parameters(), again.parameters(), strict=True):
            same(two, one, f"{case.name}: {name}, built again from the same seed")
        runs = []
        for seed, training in ((4, False), (5, False), (6, True), (6, True)):
            torch.manual_seed(seed)
            first.train(training)
            runs.append(case.run(first).detach())
        same(runs[1], runs[0], f"{case.name}: out of training, after another seed")
        same(runs[3], runs[2], f"{case.name}: in training, from the same seed")


@law(EVERY_KIND, "It runs on the meta device, with the same output shape.", _is_no_module)
def meta_device(subject: Subject) -> None:
    """Runs on the meta device, as the check of a recipe does."""
    for case in forward_passes(subject):
        with meta_init():
            part = case.subject.builder.build(case.setting.options, case.setting.dims(), _build_context(case))
            out = case.call(part.double().eval(), *(each.to("meta") for each in case.inputs))
        if not out.is_meta:
            broken(f"{case.name}: on the meta device it returns a tensor on {out.device}")


@law(EVERY_KIND, "Invalid options are refused when a recipe is read; all others run.", once=True)
def invalid_options(subject: Subject) -> None:
    """Sets every integer option to 0, a negative, an odd and a huge value in turn."""
    component = subject.component
    # A stack may have hundreds of layers; trying it would take long.
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
            for setting in settings(subject.builder, component, options):
                _run_on_meta(subject, setting, f"{setting.name}, {name}: {value}")


def _run_on_meta(subject: Subject, setting: Setting, what: str) -> None:
    kind = subject.component.kind
    inputs, call = RUNS[kind](subject, setting) if kind in RUNS else ((), attention_mask_of)
    try:
        with meta_init(), torch.no_grad():
            part = subject.builder.build(setting.options, setting.dims(), setting.build_context(subject.builder, kind))
            call(part.double().eval() if isinstance(part, nn.Module) else part, *(each.to("meta") for each in inputs))
    except KitError:
        raise
    except Exception as error:
        broken(f"{what} is not refused, and then {type(error).__name__}: {error}")


def _build_context(case: ForwardPass) -> BuildContext:
    return case.setting.build_context(case.subject.builder, case.subject.component.kind)
