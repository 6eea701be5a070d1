"""Laws of attention: growth of time and memory with the length, and compilation."""

from __future__ import annotations

import torch
from torch import Tensor

from kit.contracts.attention import Attention
from kit.laws.assertions import close
from kit.laws.attention_runner import SHORT, AttentionInputs, AttentionRunner
from kit.laws.cost_counter import exponent, measure
from kit.laws.law import broken, law
from kit.laws.setting import WIDTH, Setting
from kit.laws.subject import Subject
from kit.model.builder import meta_init
from kit.sequence.attention_context import AttentionContext
from kit.sequence.batch_layout import BatchLayout

LENGTHS = (2048, 4096)
LOOP_LENGTHS = (256, 512)
"""The lengths for a part that loops over tokens, of which each call of an operation takes time."""
PROBE_LENGTH = 64
MAX_CALLS_PER_TOKEN = 12
"""The most calls of operations for each token of `PROBE_LENGTH` at which a part is measured at `LENGTHS`."""
MAX_LINEAR_EXPONENT = 1.15
"""Growth up to this power of the length counts as linear."""


@law("attention", "Time and memory grow with the sequence length as the part declares.", once=True)
def cost(subject: Subject) -> None:
    """Counts operations and saved bytes at two lengths, and fits the exponent of their growth."""
    assert issubclass(subject.component, Attention)
    declared = subject.component.capabilities.cost
    for setting in _cost_settings(subject):
        with meta_init():
            runner = AttentionRunner(subject, setting, perturbed=False, length=LENGTHS[-1])

        def run(length: int, runner: AttentionRunner = runner) -> Tensor:
            x = torch.empty(1, length, WIDTH, dtype=torch.float64, device="meta", requires_grad=True)
            return runner(AttentionInputs(x))

        loops = measure(runner.part, run, PROBE_LENGTH).calls > MAX_CALLS_PER_TOKEN * PROBE_LENGTH
        lengths = LOOP_LENGTHS if loops else LENGTHS
        less, more = (measure(runner.part, run, length) for length in lengths)
        for name, amounts in (("time", (less.operations, more.operations)), ("memory", (less.bytes, more.bytes))):
            power = exponent(lengths, amounts)
            if declared == "linear" and power > MAX_LINEAR_EXPONENT:
                broken(
                    f"{setting.name}: {name} grows with length to the power {power:.2f}, and it declares linear cost"
                )
            if declared == "quadratic" and name == "time" and power <= MAX_LINEAR_EXPONENT:
                broken(f'{setting.name}: time grows with length to the power {power:.2f}; declare cost="linear"')


def _cost_settings(subject: Subject) -> list[Setting]:
    """Selects self-attention without positions, under no mask and under a causal one, in a decoder where it can be.

    Other masks are an arbitrary set of pairs, which costs quadratic time in any attention.
    """
    plain = [each for each in subject.settings if not each.locations and not each.memory]
    chosen = {each.mask is None: each for each in plain if each.mask is None or each.mask.shape == "causal"}
    return list(chosen.values())


def _claims_compiling(subject: Subject) -> str | None:
    assert issubclass(subject.component, Attention)
    return None if subject.component.capabilities.compiles else "it does not declare that it can be compiled"


@law(
    "attention",
    "The graph that torch.compile traces gives the same results, also with padding.",
    _claims_compiling,
    once=True,
)
def traced(subject: Subject) -> None:
    """Compiles with the backend aot_eager, which is much faster than inductor."""
    compare_compiled(subject, "aot_eager", subject.settings[:1])


@law("attention", "torch.compile gives the same results in every setting.", _claims_compiling, slow=True, once=True)
def compiled(subject: Subject) -> None:
    """Compiles with the backend inductor."""
    compare_compiled(subject, "inductor", subject.settings)


def compare_compiled(subject: Subject, backend: str, settings: list[Setting]) -> None:
    """Compares outputs and gradients of compiled and eager attention, in float64."""
    for setting in settings:
        runner = AttentionRunner(subject, setting)
        inputs = runner.inputs((4, SHORT), memory=(5, 5))

        def run(x: Tensor, runner: AttentionRunner = runner, inputs: AttentionInputs = inputs) -> Tensor:
            shape = (x.shape[0], x.shape[1])
            queries = BatchLayout(
                shape, x.device, inputs.padding_mask, features=runner.features(x, inputs.padding_mask)
            )
            keys = queries if inputs.memory is None else BatchLayout((2, inputs.memory.shape[1]), x.device)
            context = AttentionContext(queries, keys, runner.setting.mask, runner.position)
            out: Tensor = runner.part(x, inputs.memory, context)
            return out

        torch._dynamo.reset()
        results = []
        for function in (run, torch.compile(run, backend=backend)):
            x = inputs.x.clone().requires_grad_()
            out = inputs.real(function(x))
            out.sin().sum().backward()
            assert x.grad is not None
            results.append((out.detach(), x.grad))
        close(results[1][0], results[0][0], f"{setting.name}, compiled")
        close(results[1][1], results[0][1], f"{setting.name}, the gradient, compiled", 1e-8)
