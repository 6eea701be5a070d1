"""Laws of attention while decoding: beams that share one cache row, and running sums over many tokens."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from kit.contracts.attention import Attention
from kit.laws.assertions import finite
from kit.laws.attention_runner import AttentionInputs, AttentionRunner
from kit.laws.batches import vectors
from kit.laws.every_part import MAX_BF16_ERROR
from kit.laws.law import broken, law
from kit.laws.setting import WIDTH, Setting
from kit.laws.shared_beams import PROMPTS, compare_shared_beams
from kit.laws.subject import Subject
from kit.sequence.attention_context import AttentionContext
from kit.sequence.batch_layout import BatchLayout
from kit.sequence.cache import Cache, KVCache, NoCache

MANY = 1024
"""Tokens after which a sum in bfloat16, which has 8 significant bits, no longer grows."""
LAST = 64
"""The number of last tokens that are compared."""


def _not_shared(subject: Subject) -> str | None:
    assert issubclass(subject.component, Attention)
    if not subject.component.capabilities.supports_shared_beams:
        return "it does not declare that beams may share a cache row"
    return None if any(setting.causal for setting in subject.settings) else "it has no setting in a decoder"


@law(
    "attention",
    "Beams that share the cache row of their input get the output that each gets in a row of its own.",
    _not_shared,
)
def shared_beams(subject: Subject) -> None:
    """Decodes as a beam search does, with eviction; beams share no row under a content bias, so that is left out."""
    for setting in subject.settings:
        if setting.causal:
            _compare(subject, replace(setting, locations=setting.locations - {"content_bias"}))


def _compare(subject: Subject, setting: Setting) -> None:
    runner = AttentionRunner(subject, setting)
    inputs = runner.inputs(PROMPTS, memory=(5, 3, 4))
    encoded = None
    if inputs.memory is not None:
        shape = (inputs.memory.shape[0], inputs.memory.shape[1])
        encoded = BatchLayout(shape, inputs.memory.device, inputs.memory_padding_mask)

    def forward(x: Tensor, queries: BatchLayout, keys: BatchLayout, rows: Tensor, cache: Cache) -> Tensor:
        memory = None if inputs.memory is None else inputs.memory[rows]
        keys = keys if encoded is None else encoded.reorder(rows)
        out: Tensor = runner.part(x, memory, AttentionContext(queries, keys, setting.mask, runner.position), cache)
        return out

    compare_shared_beams(forward, runner.part.start, setting.name)


def _decoder(subject: Subject) -> Setting | None:
    """Selects self-attention in a decoder."""
    return next((each for each in subject.settings if each.causal and not each.memory), None)


def _sums_nothing(subject: Subject) -> str | None:
    setting = _decoder(subject)
    if setting is None:
        return "it has no self-attention in a decoder"
    part: Attention = subject.build(setting)
    return "its cache holds keys and values, and no sum" if type(part.start()) in (KVCache, NoCache) else None


@law(
    "attention",
    "Under bfloat16 autocast, decoding stays close to float32 over many tokens: a running sum is kept in float32.",
    _sums_nothing,
    once=True,
)
def autocast_decoding(subject: Subject) -> None:
    """Compares the last of many tokens, decoded one by one, with one pass in float32."""
    setting = _decoder(subject)
    assert setting is not None
    runner = AttentionRunner(subject, setting, perturbed=False, length=MANY)
    runner.part = runner.part.float()
    inputs = AttentionInputs(vectors(1, MANY, WIDTH).float())
    with torch.no_grad():
        exact = runner(inputs)[:, -LAST:]
        with torch.autocast("cpu", torch.bfloat16):
            rough = runner.in_steps(inputs, (1,) * MANY)[:, -LAST:].float()
    finite(rough, f"{setting.name}, under autocast")
    error = float((rough - exact).square().mean().sqrt() / exact.square().mean().sqrt())
    if error > MAX_BF16_ERROR:
        broken(
            f"{setting.name}: after {MANY} tokens under autocast the result is off by {error:.1%}; allowed is "
            f"{MAX_BF16_ERROR:.0%}\n    keep its sums in float32, within without_autocast"
        )
