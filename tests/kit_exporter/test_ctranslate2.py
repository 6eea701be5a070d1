"""CTranslate2 gives the model's log-probabilities and texts, for what it can express; the rest is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from models.exportable_models import READER, TRANSLATOR, WRITER, exported, section, subject
from models.searches import make_search

from kit import Problem, Request, Special, TokenBatch
from kit_exporter.ctranslate2 import Ctranslate2Exporter, Ctranslate2Options, vocabulary
from kit_exporter.part_description import SUPPRESSED_IDS

pytest.importorskip("ctranslate2")
EXPORTER = Ctranslate2Exporter(Ctranslate2Options())
HEADS = "{use: softmax, heads: 4}"
FORWARD = "{use: relu, ffn_multiplier: 2}"

TRANSLATORS: dict[str, list[tuple[str, str]]] = {
    "pre": [],
    "post, waves side by side, swish": [
        ("residual: pre", "residual: post"),
        ("position: sinusoidal", "position: {use: sinusoidal, layout: concatenated}"),
        ("use: relu", "use: silu"),
    ],
    "post with a last norm": [("residual: pre", "residual: post, final_norm: true")],
    "pre without a last norm": [("residual: pre", "residual: pre, final_norm: false")],
    "learned, tied, embedding norm, bias of words": [
        ("position: sinusoidal", "position: learned\ntie: all\nembedding_norm: true"),
        ("norm: layer", "norm: layer\nhead: {use: language, bias: true, scale: width, logit_softcap: 5.0}"),
    ],
    "kv_heads, rotary, gates, rms": [
        (HEADS, "{use: softmax, heads: 4, kv_heads: 2, bias: false}"),
        ("position: sinusoidal", "position: rotary"),
        (FORWARD, "{use: swiglu, bias: false}"),
        ("norm: layer", "norm: {use: rms, weight: offset}"),
    ],
    "widths, scale and rank of their own, no position": [
        (HEADS, "{use: softmax, heads: 4, head_dim: 16, scale: 0.5, value_lora_rank: 8}"),
        ("position: sinusoidal", "position: none"),
        ("{use: token, scale: true}", "{use: factorized, rank: 8}"),
    ],
}
WRITERS: dict[str, list[tuple[str, str]]] = {
    "gpt-2": [],
    "llama": [
        ("norm: layer", "norm: rms"),
        ("position: learned", "position: rotary"),
        ("{use: gelu, approximate: tanh}", "{use: swiglu, bias: false}"),
        (HEADS, "{use: softmax, heads: 4, kv_heads: 2, bias: false}"),
    ],
    "half turned, neighbours": [
        ("position: learned", "position: {use: rotary, layout: interleaved, rotary_fraction: 0.5}")
    ],
    "alibi": [("position: learned", "position: alibi")],
}


@pytest.mark.parametrize("changes", TRANSLATORS.values(), ids=TRANSLATORS.keys())
def test_it_translates_alike(changes: list[tuple[str, str]]) -> None:
    likely, written = exported(EXPORTER, subject(section(TRANSLATOR, *changes)))
    assert likely.difference < 2e-4 and likely.passed
    assert written.difference == 0 and "14 of 14" in written.what


@pytest.mark.parametrize("changes", WRITERS.values(), ids=WRITERS.keys())
def test_it_goes_on_alike(changes: list[tuple[str, str]]) -> None:
    likely, written = exported(EXPORTER, subject(section(WRITER, *changes)))
    assert likely.difference < 2e-4 and "14 of 14" in written.what


@pytest.mark.parametrize("quantization", ["int8", "bfloat16"])
def test_fewer_bits_differ_a_little_and_take_less_room(quantization: Any, tmp_path: Path) -> None:
    given = subject(section(TRANSLATOR))
    before = {name: value.clone() for name, value in given.model.state_dict().items()}
    sizes = {}
    for kind in ("float32", quantization):
        (tmp_path / kind).mkdir()
        likely, _ = exported(Ctranslate2Exporter(Ctranslate2Options(quantization=kind)), given, tmp_path / kind)
        assert likely.passed
        sizes[kind] = (tmp_path / kind / "model.bin").stat().st_size
    assert 1e-4 < likely.difference < 0.5
    assert sizes[quantization] < 0.75 * sizes["float32"]
    assert all(torch.equal(value, before[name]) for name, value in given.model.state_dict().items())


def test_beam_search_gives_the_kits_tokens_and_scores(tmp_path: Path) -> None:
    import ctranslate2

    given = subject(section(TRANSLATOR, head={"use": "language", "bias": True}))
    model: Any = given.model
    model.head.bias[list(SUPPRESSED_IDS)] = -1e4  # CTranslate2 shares out what it suppresses, the kit does not
    model.head.bias[Special.END] += 4.0
    exported(EXPORTER, given, tmp_path)
    names = vocabulary(given, "decoder")
    sources = torch.randint(6, 40, (12, 7), generator=torch.Generator().manual_seed(1)).tolist()
    session = model.start(TokenBatch.from_lists([[*source, int(Special.END)] for source in sources]))
    ours = [each[0] for each in make_search("beam", {"size": 4}).search(session, Request(length=15))]
    theirs = ctranslate2.Translator(str(tmp_path), intra_threads=1).translate_batch(
        [[names[token] for token in source] for source in sources],
        beam_size=4, length_penalty=1.0, min_decoding_length=0, max_decoding_length=15, return_scores=True,
    )  # fmt: skip
    assert [[names[token] for token in it.tokens] for it in ours] == [it.hypotheses[0] for it in theirs]
    assert [it.score for it in ours] == pytest.approx([it.scores[0] for it in theirs], abs=1e-4)


def refusals(*arguments: Any, **more: Any) -> list[str]:
    return [
        str(problem).removeprefix("recipe: ") for problem in EXPORTER.objections(subject(section(*arguments, **more)))
    ]


def test_each_part_that_stands_in_the_way_is_named_with_its_slot() -> None:
    assert refusals(
        WRITER,
        (HEADS, "{use: window, heads: 4, size: 8}"),
        ("masks: [causal]", "masks: [causal, {use: window, size: 8}]"),
    ) == [
        "model.decoder.masks: the mask window is nothing that CTranslate2 can express; "
        "it knows a decoder that hides the future alone",
        "model.decoder.attention: the attention window is nothing that CTranslate2 can express",
    ]
    assert refusals(WRITER, (HEADS, "{use: softmax, heads: 4, logit_softcap: 5.0}")) == [
        "model.decoder.attention: the attention softmax has a logit_softcap, which CTranslate2 cannot express"
    ]
    assert refusals(WRITER, ("position: learned", "position: {use: rotary, scaling: {use: ntk, factor: 2.0}}")) == [
        "model.position: the position rotary has a ntk scaling, which CTranslate2 cannot express"
    ]
    (several,) = refusals(TRANSLATOR, ("{use: softmax, heads: 4}, cross", "{use: softmax, heads: 2}, cross"))
    assert several.startswith("model.decoder: CTranslate2 wants all layers alike") and "[2, 4]" in several
    assert refusals(READER) == ["model.family: CTranslate2 writes texts, and a model of the family encoder does not"]


def test_a_part_of_another_package_is_refused_until_it_says_what_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither its name nor what it inherits is taken for granted."""
    from kit_attention.softmax import SoftmaxAttention
    from kit_exporter.part_description import attention

    class Variant(SoftmaxAttention):
        pass

    given = subject(section(WRITER))
    layer = given.model.decoder.stack.layers[0]  # type: ignore[union-attr, index]
    layer.attention.__class__ = Variant
    (problem,) = EXPORTER.objections(given)
    assert isinstance(problem, Problem) and "the attention softmax is nothing that CTranslate2" in problem.message
    monkeypatch.setattr(Variant, "export_description", attention, raising=False)
    assert list(EXPORTER.objections(given)) == []
    assert all(check.passed for check in exported(EXPORTER, given))


def test_tokens_that_are_written_alike_keep_their_places() -> None:
    given = subject(section(WRITER))
    symbols = ("<padding>", "<start>", "<end>", "<unknown>", "<mask>", "<separator>", "a", "a", "<end>", "", *"bcdefgh")
    from dataclasses import replace

    names = vocabulary(replace(given, symbols={"decoder": (*symbols, *map(str, range(23)))}), "decoder")
    assert names[:10] == [*symbols[:7], "a#7", "<end>#8", "#9"] and len(set(names)) == len(names) == 40
