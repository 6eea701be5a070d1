"""ONNX Runtime gives the model's scores, whatever the batch; and greedy search over it writes what the kit writes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from models.exportable_models import READER, TRANSLATOR, WRITER, exported, section, subject
from models.searches import make_search

from kit import EncoderDecoder, RecipeError, Request, Special, TokenBatch
from kit_exporter.onnx import OnnxExporter, OnnxOptions

onnxruntime = pytest.importorskip("onnxruntime")
np = pytest.importorskip("numpy")
EXPORTER = OnnxExporter(OnnxOptions())


def test_a_decode_loop_over_the_graphs_writes_what_greedy_search_writes(tmp_path: Path) -> None:
    given = subject(section(TRANSLATOR))
    (check,) = exported(EXPORTER, given, tmp_path)
    assert check.passed and check.difference < 1e-5
    encoder, decoder = (onnxruntime.InferenceSession(tmp_path / f"{name}.onnx") for name in ("encoder", "decoder"))
    sources = TokenBatch.from_lists([[7, 8, 9, 2], [10, 11, 2], [12, 13, 14, 15, 16, 2], [2]])
    assert sources.padding_mask is not None and isinstance(given.model, EncoderDecoder)
    read, real = sources.ids.numpy(), sources.padding_mask.numpy()
    (memory,) = encoder.run(None, {"source": read, "source_mask": real})
    target = np.full((len(read), 1), int(Special.START))
    for _ in range(10):
        inputs = {"memory": memory, "source_mask": real, "target": target, "target_mask": np.ones_like(target, bool)}
        (scores,) = decoder.run(None, inputs)
        scores[:, -1, [0, 1, 4, 5]] = -np.inf
        target = np.concatenate([target, scores[:, -1:].argmax(-1)], 1)
    written = [row[1:].tolist() for row in target]
    wanted = make_search("greedy", {}).search(given.model.start(sources), Request(length=10))
    for row, (best, *_) in zip(written, wanted, strict=True):
        assert row[: len(best.tokens)] == best.tokens and (not best.finished or row[len(best.tokens)] == Special.END)


def test_padding_may_stand_on_the_left_and_a_text_may_be_empty(tmp_path: Path) -> None:
    given = subject(section(WRITER, ("position: learned", "position: rotary")))
    exported(EXPORTER, given, tmp_path)
    ids = torch.randint(6, 40, (3, 6))
    padding_mask = torch.tensor([[False, False, True, True, True, True], [True] * 6, [False] * 6])
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    (found,) = session.run(None, {"target": ids.numpy(), "target_mask": padding_mask.numpy()})
    scores = torch.from_numpy(found)
    assert scores.isfinite().all()
    assert torch.allclose(
        scores[:2][padding_mask[:2]], given.model(TokenBatch(ids, padding_mask))[:2][padding_mask[:2]], atol=1e-5
    )


def test_an_operator_without_a_translation_is_named_with_its_part(tmp_path: Path) -> None:
    given = subject(section(READER, ("{use: softmax, heads: 4}", "{use: nystrom, heads: 4}")))
    with pytest.raises(RecipeError, match=r"model\.encoder\.attention: the attention nystrom uses aten\.sort"):
        EXPORTER.write(given, tmp_path)
