"""Attentions of linear cost on a device without numbers, in half precision, and after saving and loading."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from models.long_sequences import layout, run, scattered, vectors
from models.single_parts import single_part

from kit import AttentionContext, BatchLayout, Mask, Options
from kit_attention.block_sparse import BlockSparseOptions
from kit_attention.fourier import FourierOptions
from kit_attention.global_window import GlobalWindowOptions
from kit_attention.linear import LinearOptions
from kit_attention.linformer import LinformerOptions
from kit_attention.nystrom import NystromOptions
from kit_attention.performer import PerformerOptions
from kit_attention.retention import RetentionOptions
from kit_attention.window import WindowOptions
from kit_mask.causal import CausalMask

LENGTH = 150
PARTS: list[Options] = [
    BlockSparseOptions(heads=4, size=8),
    FourierOptions(scaled=True),
    GlobalWindowOptions(heads=4, size=9),
    LinearOptions(heads=4),
    LinformerOptions(heads=4, rank=9),
    NystromOptions(heads=4, landmarks=9),
    PerformerOptions(heads=4),
    RetentionOptions(heads=4),
    WindowOptions(heads=4, size=9),
]
CASES = [(part, None) for part in PARTS] + [
    (part, CausalMask()) for part in PARTS if part.use in ("linear", "performer", "retention", "window")
]


@pytest.fixture(params=CASES, ids=lambda case: f"{case[0].use}-{'causal' if case[1] else 'all'}")
def case(request: pytest.FixtureRequest) -> tuple[Options, Mask | None]:
    return request.param


def test_shapes_can_be_worked_out_without_numbers(case: tuple[Options, Mask | None]) -> None:
    part, meta = single_part(case[0], length=300).to("meta"), torch.device("meta")
    for padding_mask in (None, torch.ones(2, LENGTH, dtype=torch.bool, device=meta)):
        place = BatchLayout((2, LENGTH), meta, padding_mask, False)
        x = torch.zeros(2, LENGTH, 32, dtype=torch.float64, device=meta)
        assert part(x, None, AttentionContext(place, place, case[1])).shape == x.shape


def test_half_precision_stays_close(case: tuple[Options, Mask | None]) -> None:
    part, x, padding_mask = (
        single_part(case[0], length=300).float().eval(),
        vectors(6, LENGTH).float(),
        scattered(6, LENGTH),
    )
    exact = run(part, x, padding_mask, case[1])
    with torch.autocast("cpu", torch.bfloat16):
        close = run(part, x, padding_mask, case[1])
    assert close.isfinite().all()
    assert (close.float() - exact)[padding_mask].abs().max() < 0.03 * exact[padding_mask].abs().max()


def test_a_part_that_was_saved_gives_the_same_numbers(case: tuple[Options, Mask | None], tmp_path: Path) -> None:
    part, x, padding_mask = single_part(case[0], length=300).eval(), vectors(6, LENGTH), scattered(6, LENGTH)
    torch.save(part.state_dict(), tmp_path / "part")
    other = single_part(case[0], length=300).eval()
    for parameter in other.parameters():
        torch.nn.init.normal_(parameter)
    other.load_state_dict(torch.load(tmp_path / "part", weights_only=True))
    assert torch.equal(run(other, x, padding_mask, case[1]), run(part, x, padding_mask, case[1]))


def test_no_rows_and_one_token_work(case: tuple[Options, Mask | None]) -> None:
    part = single_part(case[0], length=300).eval()
    for rows, length in ((1, 1), (0, 3)):
        place = layout(torch.ones(rows, length, dtype=torch.bool))
        out = part(vectors(rows, length), None, AttentionContext(place, place, case[1]))
        assert out.shape == (rows, length, 32) and out.isfinite().all()
