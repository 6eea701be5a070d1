"""Vectors of words, alone and in context: known geometry, and a word with two senses."""

from __future__ import annotations

import builtins
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from models.tiny_models import build
from typer.testing import CliRunner

from kit import Inspector
from kit.cli.main import app
from kit.errors import KitError
from kit_data.bank import BankData, BankOptions
from kit_inspect import embedding_geometry as geometry
from kit_inspect.embedding_geometry import draw
from kit_inspect.static_vectors import read_vectors, word2vec
from kit_inspect.token_vectors import TABLE, Occurrences, TokenizedSequence, occurrences, tokenized, word_of
from kit_residual.hyper import HyperOptions


def test_cosines() -> None:
    same = torch.tensor([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]])
    assert geometry.mean_cosine(same) == pytest.approx(1.0)
    right = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    assert geometry.mean_cosine(right) == pytest.approx((0 + 0 - 1) / 3)
    assert math.isnan(geometry.mean_cosine(same[:1]))
    assert geometry.first_pc_variance(same) == pytest.approx(1.0)
    assert geometry.first_pc_variance(torch.eye(4)) == pytest.approx(0.25)


def test_self_similarity_is_held_against_any_two_words() -> None:
    """In a narrow cone even different words are alike; what is beyond that is the word's own."""
    generator = torch.Generator().manual_seed(0)
    cone = torch.tensor([5.0] + [0.0] * 15)
    words = [f"w{number}" for number in range(20) for _ in range(10)]
    own = torch.randn(20, 16, generator=generator).repeat_interleave(10, 0)
    static = geometry.self_similarity(cone + own, words)
    assert static.self_similarity == pytest.approx(1.0) and static.first_pc_variance == pytest.approx(1.0)
    loose = geometry.self_similarity(cone + torch.randn(200, 16, generator=generator), words)
    assert loose.self_similarity > 0.5 and abs(loose.adjusted) < 0.02
    assert geometry.self_similarity(cone + own, words).adjusted == pytest.approx(1 - static.baseline)
    assert math.isnan(geometry.anisotropy(own, ["one"] * 200))


def test_neighbours_are_of_mean_vectors() -> None:
    vectors = torch.tensor([[1.0, 0.1], [1.0, -0.1], [0.9, 0.2], [-1.0, 0.0], [-1.0, 0.3]])
    assert len(geometry.neighbours(vectors, ["a", "a", "b", "c", "d"], "a")) == 3
    (first, cosine), *_ = geometry.neighbours(vectors, ["a", "a", "b", "c", "d"], "a", most=1)
    assert first == "b" and cosine > 0.8


def test_one_vector_for_all_senses_is_chance_and_two_are_told_apart() -> None:
    senses = ["x", "x", "x", "y", "y", "y"]
    static = torch.ones(6, 3)
    assert geometry.nearest_sense(static, senses) == pytest.approx(geometry.sense_chance(senses)) == pytest.approx(0.4)
    assert geometry.silhouette(static, senses) == pytest.approx(0.0)
    apart = torch.eye(2).repeat_interleave(3, 0)
    assert geometry.nearest_sense(apart, senses) == 1.0 and geometry.silhouette(apart, senses) == pytest.approx(1.0)
    crossed = torch.eye(2).repeat(3, 1)
    assert geometry.nearest_sense(crossed, senses) < 0.5 and geometry.silhouette(crossed, senses) < 0.2


def test_the_flat_picture_keeps_what_varies_most_and_is_the_same_each_time() -> None:
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(50, 2, generator=generator).double() * torch.tensor([5.0, 1.0])
    turned, _ = torch.linalg.qr(torch.randn(8, 8, generator=generator).double())
    found = geometry.pca_2d(points @ turned[:2] + 3)
    centred = points - points.mean(0)
    assert torch.allclose(found @ found.T, centred @ centred.T)  # the same points, turned
    assert torch.equal(geometry.pca_2d(points @ turned[:2]), geometry.pca_2d(points @ turned[:2]))
    assert geometry.pca_2d(torch.ones(3, 4)).shape == (3, 2) and geometry.pca_2d(torch.ones(1, 1)).shape == (1, 2)


@pytest.mark.parametrize("family", ["encoder", "decoder", "encoder-decoder"])
def test_every_layer_gives_a_vector_to_every_word(family: str) -> None:
    model = build(family)
    texts = [
        TokenizedSequence((1, 7, 8), ("<start>", "a", "b"), (False, True, True)),
        TokenizedSequence((7, 9), ("a", "c"), (True, True)),
    ]
    found = occurrences(model, texts)
    assert found.words == ("a", "b", "a", "c") and found.sequences == (0, 0, 1, 1)
    assert list(found.layers) == [TABLE, "layer 1", "layer 2"]
    assert torch.equal(found.layers[TABLE][0], found.layers[TABLE][2])  # the table does not see the context
    assert not torch.equal(found.layers["layer 1"][0], found.layers["layer 1"][2])
    assert found.of("a").sequences == (0, 1) and len(found.of("a").layers["layer 2"]) == 2
    if family == "encoder":
        last = model.encoder(*_tokens((1, 7, 8)))[0]
        assert torch.allclose(found.layers["layer 2"][:2].double(), last[1:], atol=1e-5)  # post-norm: nothing follows


def test_layers_that_carry_several_streams_are_left_out() -> None:
    model = build("encoder", {"residual": HyperOptions()})
    found = occurrences(model, [TokenizedSequence((7, 8), ("a", "b"), (True, True))])
    assert TABLE in found.layers and all(vectors.dim() == 2 for vectors in found.layers.values())


def test_texts_are_read_as_the_run_reads_them(pairs: Inspector, text: Inspector) -> None:
    (read,) = tokenized(pairs, ["1 2"])
    assert read.tokens == ("1", "2", "<end>") and read.is_word == (True, True, False)
    (read,) = tokenized(text, ["the"])
    assert read.tokens == ("<start>", "t", "h", "e") and read.sense is None
    assert (word_of("▁the"), word_of("▁")) == ("the", "▁")


def test_static_vectors_stand_beside_those_in_context(tmp_path: Path) -> None:
    sentences = [["king", "rules", "land"], ["queen", "rules", "land"], ["dog", "eats", "bone"]] * 30
    learnt = word2vec(sentences, width=8)
    assert learnt["king"].shape == (8,) and torch.equal(word2vec(sentences, width=8)["dog"], learnt["dog"])
    for head in ("", "2 3\n"):
        file = tmp_path / "vectors.txt"
        file.write_text(f"{head}king 1 0 0\nqueen 0 1 0\n")
        assert read_vectors(file)["queen"].tolist() == [0, 1, 0]
    found = Occurrences(("king", "cat", "king"), (None,) * 3, (0, 0, 1), {"table": torch.arange(6.0).view(3, 2)})
    beside = found.with_static_layer("glove", read_vectors(tmp_path / "vectors.txt"))
    assert beside.words == ("king", "king") and list(beside.layers) == ["glove", "table"]
    assert beside.layers["table"].tolist() == [[0, 1], [4, 5]]
    assert found.with_static_layer("none", {}).words == ()
    (tmp_path / "bad.txt").write_text("not numbers at all\n")
    for path in (tmp_path / "bad.txt", tmp_path / "missing.txt"):
        with pytest.raises(KitError, match="vectors"):
            read_vectors(path)


def test_what_is_missing_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = builtins.__import__

    def without(name: str, *more: Any, **named: Any) -> Any:
        if name.partition(".")[0] in ("gensim", "matplotlib"):
            raise ImportError(name)
        return real(name, *more, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(KitError, match=r"pip install 'kitformer\[embeddings\]'"):
        word2vec([["a"]])
    with pytest.raises(KitError, match=r"pip install 'kitformer\[plots\]'"):
        draw(Occurrences((), (), (), {}), "a", tmp_path / "a.png")


def test_sentences_about_banks_say_both_senses() -> None:
    data = BankData(BankOptions(train=60))
    examples = list(data.open("train"))
    assert {example.label for example in examples} == {"river", "money"}
    assert all(" bank " in example.source for example in examples)
    assert data.task == "text" and examples[7] == data.open("train")[7]


def test_the_command(pairs: Inspector, tmp_path: Path) -> None:
    assert pairs.loaded_run is not None
    run = str(pairs.loaded_run.run.path)
    (tmp_path / "texts.tsv").write_text("low\t1 2 3\nlow\t1 2 4\nhigh\t1 8 9\nhigh\t1 8 7\n")
    given = ["--file", str(tmp_path / "texts.tsv"), "--word2vec", "--picture", str(tmp_path / "one.png")]
    shown = CliRunner().invoke(app, ["embeddings", run, "1", *given])
    assert shown.exit_code == 0, shown.output
    assert "word2vec" in shown.output and "layer 2" in shown.output and "by chance" in shown.output
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")
    plain = CliRunner().invoke(app, ["embeddings", run, "1", "--json", *given[:2]])
    report = json.loads(plain.output)
    assert report["closely"]["1"]["layers"]["table"]["nearest has the same sense"] == pytest.approx(1 / 3)
    assert report["layers"]["table"]["self-similarity"] == pytest.approx(1.0)
    missing = CliRunner().invoke(app, ["embeddings", run, "zebra", *given[:2]])
    assert missing.exit_code != 0 and isinstance(missing.exception, KitError)


def _tokens(ids: tuple[int, ...]) -> Any:
    from kit import BatchLayout, TokenBatch

    tokens = TokenBatch.of(torch.tensor([ids]))
    return tokens, BatchLayout.of(tokens)
