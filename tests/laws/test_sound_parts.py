"""Parts that are sound in a way that a law could mistake for a fault, beside what the law is there for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import pytest
import torch
from torch import Tensor

from kit import AttentionContext, Capabilities, Kit, Metric, MultiHeadAttention, MultiHeadOptions, Options, Results
from kit.laws import LAWS, check, try_law

KIT = Kit()
CHUNK = 16


class ChunkedOptions(MultiHeadOptions):
    use: Literal["chunked"] = "chunked"


class Chunked(MultiHeadAttention):
    """Causal linear attention in chunks that are slices: pairs within a chunk, and a sum over those before."""

    options_type = ChunkedOptions
    capabilities = Capabilities(masks=frozenset({"causal"}), positions=frozenset(), reads_memory=False, cost="linear")
    chunk = CHUNK
    seen: ClassVar[list[int]] = []
    """The lengths of the sequences that were attended to."""

    def attend(self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, context: AttentionContext) -> Tensor:
        self.seen.append(q_BHQE.shape[2])
        total, outs = torch.zeros_like(k_BGKE[:, :, 0, :, None] * v_BGKF[:, :, 0, None]), []
        for start in range(0, q_BHQE.shape[2], self.chunk):
            q, k, v = (each[:, :, start : start + self.chunk] for each in (q_BHQE, k_BGKE, v_BGKF))
            outs.append((q @ k.transpose(-1, -2)).tril() @ v + q @ total)
            total = total + k.transpose(-1, -2) @ v
        return self.joined(outs, v_BGKF)

    def joined(self, outs: Sequence[Tensor], v_BGKF: Tensor) -> Tensor:
        return torch.cat(list(outs), 2)


class WritesSlices(Chunked):
    """Writes its chunks into one tensor."""

    def joined(self, outs: Sequence[Tensor], v_BGKF: Tensor) -> Tensor:
        out = torch.zeros_like(v_BGKF)
        for number, each in enumerate(outs):
            out[:, :, number * self.chunk : (number + 1) * self.chunk] = each
        return out


class TokenByToken(Chunked):
    chunk = 1


class ReadsAllBefore(Chunked):
    """Says that it is linear, and each chunk attends to all before it."""

    def attend(self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, context: AttentionContext) -> Tensor:
        outs = []
        for start in range(0, q_BHQE.shape[2], self.chunk):
            stop = start + self.chunk
            weights = (q_BHQE[:, :, start:stop] @ k_BGKE[:, :, :stop].transpose(-1, -2)).softmax(-1)
            outs.append(weights @ v_BGKF[:, :, :stop])
        return torch.cat(outs, 2)


class ReadsAllTokenByToken(ReadsAllBefore):
    chunk = 1


@pytest.mark.parametrize(("component", "longest"), [(Chunked, 4096), (WritesSlices, 4096), (TokenByToken, 512)])
def test_slices_in_a_loop_are_linear(component: Any, longest: int) -> None:
    """A loop over single tokens is measured at lengths that take seconds."""
    component.seen.clear()
    verdict = try_law(LAWS["attention.cost"], component, KIT)
    assert verdict.outcome == "passed", verdict.message
    assert max(component.seen) == longest


@pytest.mark.parametrize("component", [ReadsAllBefore, ReadsAllTokenByToken])
def test_a_loop_over_all_before_is_not(component: Any) -> None:
    verdict = try_law(LAWS["attention.cost"], component, KIT)
    assert verdict.outcome == "failed" and "it declares linear cost" in verdict.message


class MetricOptions(Options):
    use: Literal["measured"] = "measured"


class BrevityPenalty(Metric):
    """BLEU's: 1 unless the answers are shorter than their references."""

    options_type = MetricOptions
    reads_answers = True
    lower_is_better = False
    is_fraction = True

    def measure(self, results: Results) -> float:
        lengths = [(len(it.text.split()), len(it.references[0].split())) for it in results.answers]
        given, wanted = (sum(side) for side in zip(*lengths, strict=True))
        return 1.0 if given >= wanted else float(torch.tensor(1 - wanted / max(given, 1e-9)).exp())


class Variety(BrevityPenalty):
    """Distinct words over words, which is highest for answers of one word."""

    def measure(self, results: Results) -> float:
        words = [word for it in results.answers for word in it.text.split()]
        return len(set(words)) / max(1, len(words))


@pytest.mark.parametrize("component", [BrevityPenalty, Variety])
def test_a_metric_may_see_only_some_faults(component: Any) -> None:
    report = check(component, KIT)
    assert report.passed, str(report)

    class UpsideDown(component):  # type: ignore[misc]
        lower_is_better = True
        is_fraction = False

    verdict = try_law(LAWS["metric.direction"], UpsideDown, KIT)
    assert verdict.outcome == "failed" and "too short ones" in verdict.message
