"""Published vectors: every format, what is covered, what is not, and files that are wrong."""

from __future__ import annotations

import gzip
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from models.model_checks import check_decoder
from models.tiny_models import KIT, build

from kit import BuildContext, DataError, Dims, KitError, Special
from kit.model.builder import ModelBuilder
from kit_embedding.pretrained import PretrainedEmbedding, PretrainedOptions

SPECIAL = tuple(f"<{special.name.lower()}>" for special in Special)
WORDS = {"the": [0.1, -2.0, 3.5], "cat": [1.0, 2.0, 3.0], "Paris": [-1.0, 0.5, 1e-3], "naïve": [4.0, 5.0, 6.0]}
SYMBOLS = (*SPECIAL, "cat", "the", "unicorn", "▁naïve", "PARIS", "paris")


def glove(words: dict[str, list[float]] = WORDS) -> bytes:
    return "".join(f"{word} {' '.join(map(str, numbers))}\n" for word, numbers in words.items()).encode()


def word2vec_text() -> bytes:
    return b"4 3\n" + glove().replace(b"\n", b" \n")


def word2vec_binary(newline: bytes = b"\n") -> bytes:
    rows = [word.encode() + b" " + np.array(numbers, "<f4").tobytes() + newline for word, numbers in WORDS.items()]
    return b"4 3\n" + b"".join(rows)


def embedding(path: Path, symbols: tuple[str, ...] | None = SYMBOLS, width: int = 3, **options: Any) -> Any:
    torch.manual_seed(0)
    dims = Dims(width, vocabulary=len(SYMBOLS), symbols=symbols)
    return BuildContext(ModelBuilder(KIT.registry)).build(PretrainedOptions(file=str(path), **options), dims)


FILES = {
    "glove.txt": glove(),
    "glove.txt.gz": gzip.compress(glove()),
    "word2vec.txt": word2vec_text(),
    "word2vec.bin": word2vec_binary(),
    "unbroken.bin": word2vec_binary(b""),
    "word2vec.bin.gz": gzip.compress(word2vec_binary()),
    "crlf.txt": glove().replace(b"\n", b"\r\n"),
}


@pytest.mark.parametrize("name", FILES)
def test_every_format(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / name).write_bytes(FILES[name])
    part = embedding(tmp_path / name)
    with caplog.at_level(logging.INFO):
        part.init_pretrained()
    for token, word in (("cat", "cat"), ("the", "the"), ("▁naïve", "naïve")):
        assert torch.equal(part.table[SYMBOLS.index(token)], torch.tensor(WORDS[word]))
    assert part.found == 3
    assert caplog.messages == [f"{tmp_path / name}: vectors for 3 of 6 tokens (50.0 %)"]


def test_a_file_can_be_told_to_be_binary(tmp_path: Path) -> None:
    (tmp_path / "vectors").write_bytes(word2vec_binary())
    part = embedding(tmp_path / "vectors", format="binary")
    part.init_pretrained()
    assert part.found == 3


def test_lower_case_is_the_last_resort(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_bytes(glove({"paris": [1, 1, 1], "PARIS": [2, 2, 2], "cat": [3, 3, 3]}))
    part = embedding(
        tmp_path / "v.txt", symbols=(*SPECIAL, "PARIS", "Paris", "Cat", "▁CAT", "dog", "cow"), lowercase=True
    )
    part.init_pretrained()
    assert part.table[len(SPECIAL) :][:4, 0].tolist() == [2, 1, 3, 3]
    assert part.found == 4


def test_the_first_of_two_equal_words_counts_and_words_may_hold_spaces(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_bytes(b"cat 1 2 3\ncat 4 5 6\n. . . 7 8 9\n")
    part = embedding(tmp_path / "v.txt", symbols=(*SPECIAL, "cat", ". . .", *"abcd"))
    part.init_pretrained()
    assert part.table[len(SPECIAL) :][:2].tolist() == [[1, 2, 3], [7, 8, 9]]


def test_words_that_the_file_lacks_begin_with_its_mean_and_spread(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    words = {f"w{number}": (rng.normal([5, 0, -5], [0.1, 1, 3])).tolist() for number in range(500)}
    (tmp_path / "v.txt").write_bytes(glove(words))
    symbols = (*SPECIAL, "w1", *(f"unknown{number}" for number in range(2000)))
    dims = Dims(3, vocabulary=len(symbols), symbols=symbols)
    part = BuildContext(ModelBuilder(KIT.registry)).build(PretrainedOptions(file=str(tmp_path / "v.txt")), dims)
    part.init_pretrained()
    unknown = part.table[len(SPECIAL) + 1 :]
    assert unknown.mean(0).tolist() == pytest.approx([5, 0, -5], abs=0.4)
    assert unknown.std(0).tolist() == pytest.approx([0.1, 1, 3], rel=0.15)


def test_frozen_vectors_are_saved_and_not_trained(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_bytes(glove())
    part = embedding(tmp_path / "v.txt", frozen=True)
    part.init_pretrained()
    assert list(part.parameters()) == [] and "table" in part.state_dict()
    other = embedding(Path("not there"), frozen=True)
    other.load_state_dict(part.state_dict())
    assert torch.equal(other(torch.arange(12)), part(torch.arange(12)))
    assert embedding(tmp_path / "v.txt").table.requires_grad


def test_other_widths_get_a_matrix_that_the_way_back_shares(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_bytes(glove())
    part = embedding(tmp_path / "v.txt", width=5, **{"frozen": True})
    assert part.width == 5
    wide = BuildContext(ModelBuilder(KIT.registry)).build(
        PretrainedOptions(file=str(tmp_path / "v.txt"), width=3), Dims(5, vocabulary=12, symbols=SYMBOLS)
    )
    wide.init_pretrained()
    vectors = torch.stack([wide.up @ wide.table[token] for token in range(12)])
    assert torch.allclose(wide(torch.arange(12)), vectors, atol=1e-6)
    x = torch.randn(5)
    assert torch.allclose(wide.project(x), vectors @ x, atol=1e-6)


WRONG: dict[str, tuple[str, bytes, str]] = {
    "a short line": (
        "v.txt",
        glove() + b"dog 1 2\n",
        "v.txt:5: found a word and 2 numbers, wanted a word and 3 numbers",
    ),
    "a word for a number": ("v.txt", b"cat 1 2 3\nthe 1 x 3\n", "v.txt:2: 'the' is not followed by numbers"),
    "a number that is none": ("v.txt", b"cat 1 nan 3\n", "v.txt:1: a number of 'cat' is not finite"),
    "an empty file": ("v.txt", b"", "v.txt: holds no word"),
    "a header and no word": ("v.txt", b"0 3\n", "v.txt: holds no word"),
    "another width": ("v.txt", b"cat 1 2\n", "v.txt:1: its vectors have 2 numbers, and this embedding is made for 3"),
    "no known word": ("v.txt", b"dog 1 2 3\n", "v.txt: holds none of the 6 tokens of the vocabulary"),
    "text as binary": ("v.bin", glove(), "v.bin:1: found b'the 0.1 -2.0 3.5\\n', wanted a first line of two numbers"),
    "a cut binary": ("v.bin", word2vec_binary()[:-3], "v.bin: ends within word 4 of the 4 that it promises"),
    "a cut archive": ("v.txt.gz", gzip.compress(glove())[:-9], "v.txt.gz: cannot be read"),
    "no archive": ("v.txt.gz", glove(), "v.txt.gz: cannot be read: Not a gzipped file"),
}


@pytest.mark.parametrize("name", WRONG)
def test_files_that_are_wrong(name: str, tmp_path: Path) -> None:
    file, content, message = WRONG[name]
    (tmp_path / file).write_bytes(content)
    with pytest.raises(DataError) as caught:
        embedding(tmp_path / file).init_pretrained()
    assert message in str(caught.value)


def test_a_file_that_is_missing_is_missed_only_when_training_begins() -> None:
    part = embedding(Path("nowhere.txt"))
    assert part(torch.tensor([1])).shape == (1, 3)
    with pytest.raises(DataError, match=r"no such file: 'nowhere\.txt'"):
        part.init_pretrained()


def test_vectors_without_words() -> None:
    with pytest.raises(KitError, match="belong to words, and the words of this model are not known"):
        embedding(Path("nowhere.txt"), symbols=None).init_pretrained()


def test_a_whole_model() -> None:
    model = build(embedding=PretrainedOptions(file="nowhere.txt", width=7))
    assert isinstance(model.decoder.embedding, PretrainedEmbedding)
    check_decoder(model)
