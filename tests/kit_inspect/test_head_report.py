"""Numbers come with an interval, with the value under uniform attention, and that of an untrained model."""

from __future__ import annotations

import json

import pytest
import torch
from models.synthetic_attention import Pretended, alibi, causal, even, previous

from kit import ExampleIds, Inspector, Kit
from kit_inspect.head_report import Controls, Estimate, measure_heads
from kit_probe.entropy import EntropyOptions, EntropyProbe
from kit_probe.offset import OffsetOptions, OffsetProbe
from kit_probe.similarity import SimilarityOptions, SimilarityProbe

TEXTS = [("1 2 3", "3 2 1"), ("4 5", "5 4"), ("6 7 8 1", "1 8 7 6")]


def test_every_probe_that_is_installed_measures_a_run(pairs: Inspector) -> None:
    registry = Kit().registry
    every = [part.component(part.component.options_type.model_validate({})) for part in registry.components("probe")]  # type: ignore[call-arg]
    report = measure_heads(pairs, every, TEXTS, Controls(resamples=5))  # type: ignore[arg-type]
    assert report.sequences == 3 and len(report.heads) == 2 * 2 + 2 * 4 + 2 * 2
    assert [found.kind for found in report.distances] == ["encoder", "decoder", "cross"]
    first = report.heads[0]
    assert first.name == "encoder.0.attention:0" and {"entropy", "relative", "importance", "loss without"} <= set(
        first.estimates
    )
    assert set(first.estimates) <= set(report.meanings)
    json.dumps(report.plain(), allow_nan=False)


def test_controls(pairs: Inspector) -> None:
    report = measure_heads(pairs, [EntropyProbe(EntropyOptions())], TEXTS)
    found = report.heads[0].estimates["entropy"]
    assert found.uniform == pytest.approx(1.0)
    assert found.untrained is not None and found.untrained != found.value
    assert found.low is not None and found.value is not None and found.high is not None
    assert found.low <= found.value <= found.high and found.low < found.high
    again = measure_heads(pairs, [EntropyProbe(EntropyOptions())], TEXTS).heads[0].estimates["entropy"]
    assert again == found
    bare = measure_heads(pairs, [EntropyProbe(EntropyOptions())], TEXTS, Controls(resamples=0, untrained=None))
    assert bare.heads[0].estimates["entropy"] == Estimate(found.value, None, None, found.uniform, None)


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    """Texts whose head is sharp with probability 0.3: the mean over 40 of them is in most intervals."""
    generator = torch.Generator().manual_seed(0)
    hits = 0
    for trial in range(60):
        sharp = torch.rand(40, generator=generator) < 0.3

        def weights(ids: list[int], sharp: torch.Tensor = sharp) -> torch.Tensor:
            return (previous(len(ids)) if sharp[ids[1] - 6] else even(causal(len(ids))))[None]

        inspector = Pretended(weights)  # type: ignore[arg-type]
        texts = [" ".join(map(str, (number + 6, 7, 8))) for number in range(40)]
        controls = Controls(resamples=100, seed=trial)
        found = (
            measure_heads(inspector, [EntropyProbe(EntropyOptions())], texts, controls).heads[0].estimates["entropy"]
        )
        assert found.low is not None and found.high is not None
        hits += found.low <= 0.7 <= found.high
    assert hits >= 52  # 95 % of 60 are 57; fewer than 52 have a chance of one in a hundred at 93 %


def test_the_strongest_role_is_told_and_a_head_may_have_none() -> None:
    def weights(ids: list[int]) -> torch.Tensor:
        size = len(ids)
        return torch.stack([previous(size), even(causal(size)), alibi(size, 0.4)])

    inspector = Pretended(weights)  # type: ignore[arg-type]
    probes = [EntropyProbe(EntropyOptions()), OffsetProbe(OffsetOptions()), SimilarityProbe(SimilarityOptions())]
    report = measure_heads(inspector, probes, ["6 7 8 9", "8 7 6"])
    assert [card.role for card in report.heads] == [
        "looks at the token before",
        "attends uniformly to all it may see",
        "no clear role",
    ]
    assert report.distances[0].clusters == (0, 1, 1)
    assert report.distances[0].heads[2] == ("decoder.0.attention", 2)


def test_the_untrained_model_reads_what_the_trained_one_wrote(pairs: Inspector) -> None:
    rows, wrote = pairs.with_generated_targets([ExampleIds((6, 7))])
    assert wrote == [True] and rows[0].target is not None
    assert measure_heads(pairs, [EntropyProbe(EntropyOptions())], ["1 2"]).sequences == 1
