"""Graphs in PyTorch's own format: any batch, any length, padding anywhere, without the kit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from models.exportable_models import READER, TRANSLATOR, WRITER, exported, section, subject
from torch import nn

from kit import RecipeError, TokenBatch
from kit_exporter.torch_export import TorchExportExporter, TorchExportOptions

EXPORTER = TorchExportExporter(TorchExportOptions())


def load(folder: Path, name: str) -> nn.Module:
    return torch.export.load(folder / f"{name}.pt2").module()


def test_an_encoder_decoder_is_two_graphs_that_give_its_scores(tmp_path: Path) -> None:
    given = subject(section(TRANSLATOR))
    (check,) = exported(EXPORTER, given, tmp_path)
    assert check.passed and check.difference < 1e-5 and "14 texts in 4 batches" in check.what
    encoder, decoder = load(tmp_path, "encoder"), load(tmp_path, "decoder")
    source, target = torch.randint(6, 40, (2, 90)), torch.randint(6, 40, (2, 70))  # longer than what was traced
    real, written = torch.ones_like(source, dtype=torch.bool), torch.ones_like(target, dtype=torch.bool)
    scores = decoder(encoder(source, real), real, target, written)
    assert torch.allclose(scores, given.model(source, target), atol=1e-5)
    fused = [
        node for node in torch.export.load(tmp_path / "encoder.pt2").graph.nodes if "dot_product" in str(node.target)
    ]
    assert len(fused) == len(given.model.encoder.stack.layers), "not the form that a watcher sees"


def test_padding_may_stand_on_the_left_and_a_text_may_be_empty(tmp_path: Path) -> None:
    given = subject(section(WRITER))
    exported(EXPORTER, given, tmp_path)
    model = load(tmp_path, "model")
    ids = torch.randint(6, 40, (3, 6))
    padding_mask = torch.tensor([[False, False, True, True, True, True], [True] * 6, [False] * 6])
    scores = model(ids, padding_mask)
    assert scores.isfinite().all()
    assert torch.allclose(
        scores[:2][padding_mask[:2]], given.model(TokenBatch(ids, padding_mask))[:2][padding_mask[:2]], atol=1e-5
    )


def test_a_classifier_gives_scores_of_texts() -> None:
    (check,) = exported(EXPORTER, subject(section(READER, head={"use": "classes", "classes": 3})))
    assert check.passed


def test_what_a_mask_wants_to_know_is_an_input(tmp_path: Path) -> None:
    given = subject(section(READER, ("residual: post", "residual: post, masks: [document]")))
    (check,) = exported(EXPORTER, given, tmp_path)
    assert check.passed
    ids = torch.randint(6, 40, (1, 4))
    padding_mask = torch.ones_like(ids, dtype=torch.bool)
    model = load(tmp_path, "model")
    apart, together = (
        model(ids, padding_mask, torch.tensor([[0, 0, 1, 1]])),
        model(ids, padding_mask, torch.zeros_like(ids)),
    )
    assert not torch.allclose(apart, together)


def test_a_part_that_looks_at_the_length_is_named_with_its_slot() -> None:
    given = subject(section(READER, ("use: softmax, heads: 4", "use: fourier")))
    with pytest.raises(RecipeError, match=r"model\.encoder\.attention: the attention fourier cannot be traced"):
        exported(EXPORTER, given)


def test_a_graph_that_gives_other_numbers_is_noticed(tmp_path: Path) -> None:
    given = subject(section(READER))
    EXPORTER.write(given, tmp_path)
    with torch.no_grad():
        next(given.model.parameters()).mul_(1.01)
    (check,) = EXPORTER.verify(given, tmp_path)
    assert not check.passed and check.difference > check.limit
