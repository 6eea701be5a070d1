"""Rows of one text that share its state write what rows with states of their own write."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
from models.tiny_models import build, random_tokens

from kit import AttentionRecorder, DecodingSession, EncoderDecoder, TokenBatch
from kit.kernels import attention as kernels
from kit.model.decoding_session import BeamTree, group_rows, own_tokens
from kit_attention.additive import AdditiveOptions
from kit_attention.softmax import SoftmaxOptions
from kit_mask.causal import CausalOptions
from kit_mask.window import WindowOptions
from kit_position.alibi import AlibiOptions
from kit_position.learned import LearnedOptions
from kit_position.rotary import RotaryOptions

VARIANTS: dict[str, dict[str, Any]] = {
    "textbook": {},
    "rotary": {"position": RotaryOptions()},
    "alibi": {"position": AlibiOptions()},
    "learned": {"position": LearnedOptions()},
    "grouped": {"layer": {"attention": SoftmaxOptions(heads=4, kv_heads=2)}},
    "window": {"layer": {"masks": (CausalOptions(), WindowOptions(size=3))}},
}


def begin(model: Any, source: TokenBatch) -> DecodingSession:
    session: DecodingSession = model.start(source) if isinstance(model, EncoderDecoder) else model.start()
    return session


def walk(session: DecodingSession, prompt: TokenBatch, apart: bool) -> list[torch.Tensor]:
    """A search that widens, reorders, reads several tokens at once, some of them padding, and drops rows unevenly."""
    if apart:
        session.__dict__["can_share_beams"] = False
    generator = torch.Generator().manual_seed(4)
    seen = [session.step(prompt)]
    for rows in (
        [0, 0, 0, 1, 1, 1, 2, 2, 2],
        [2, 0, 0, 3, 5, 4, 8, 8, 8],
        [0, 1, 2, 6, 7, 7],
        [0, 0, 3, 5],
        [3, 1, 1, 0, 2],
        [0, 0, 1, 1, 4, 4],
    ):
        session.reorder(torch.tensor(rows))
        assert session.rows == len(rows)
        length = len(seen) % 3 + 1
        ids = torch.randint(1, 50, (len(rows), length), generator=generator)
        padding_mask = torch.rand(len(rows), length, generator=generator) < 0.8
        padding_mask[:, 0] = True
        tokens = TokenBatch(ids) if len(seen) % 2 else TokenBatch(ids, padding_mask)
        scores = session.step(tokens)
        seen.append(scores if tokens.padding_mask is None else scores[padding_mask])
    return seen


@pytest.mark.parametrize("family", ["encoder-decoder", "decoder"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_sharing_changes_nothing(family: str, variant: str) -> None:
    model = build(family, **VARIANTS[variant])
    prompt = random_tokens(4, 4, 4, seed=1) if family == "encoder-decoder" else random_tokens(2, 6, 3, seed=1)
    with torch.no_grad():
        shared, apart = begin(model, random_tokens(3, 8, 5)), begin(model, random_tokens(3, 8, 5))
        found, wanted = walk(shared, prompt, apart=False), walk(apart, prompt, apart=True)
    assert shared.beam_tree is not None and apart.beam_tree is None
    for ours, truth in zip(found[1:], wanted[1:], strict=True):
        assert (ours - truth).abs().max() < 1e-10


def test_reordering_a_beam_copies_no_cache() -> None:
    model = build()
    with torch.no_grad():
        session = begin(model, random_tokens(3, 8))
        session.step(torch.tensor([[1], [1]]))
        session.reorder(torch.arange(2).repeat_interleave(4))
        session.step(torch.full((8, 1), 7))
        before = [tensor.data_ptr() for tensor in session.state.tensors()]
        session.reorder(torch.tensor([3, 0, 0, 1, 7, 7, 6, 4]))
        assert [tensor.data_ptr() for tensor in session.state.tensors()] == before
        assert {tensor.shape[0] for tensor in session.state.tensors()} == {2}
        session.reorder(torch.tensor([4, 5, 6, 7]))
    assert {tensor.shape[0] for tensor in session.state.tensors()} == {1}


def beam_for_long(session: DecodingSession, prompt: TokenBatch, apart: bool) -> tuple[torch.Tensor, list[int]]:
    """Forty steps of a beam of four, whose rows often descend from one: the last scores, and the number of keys."""
    if apart:
        session.__dict__["can_share_beams"] = False
    generator = torch.Generator().manual_seed(5)
    read = prompt.ids.shape[0]
    scores, width, keys = session.step(prompt), 1, []
    for number in range(40):
        chosen = torch.randint(0, width, (read, 4), generator=generator)
        session.reorder((chosen + width * torch.arange(read)[:, None]).flatten())
        width = 4
        ids = torch.randint(1, 50, (4 * read, 1 + number % 2), generator=generator)
        padding_mask = torch.rand(ids.shape, generator=generator) < 0.7
        padding_mask[:, 0] = True
        scores = session.step(TokenBatch(ids, padding_mask))[:, 0]
        keys.append(session.beam_tree.ancestor_RS.shape[1] if session.beam_tree else 0)
    return scores, keys


@pytest.mark.parametrize("family", ["encoder-decoder", "decoder"])
@pytest.mark.parametrize("many", [False, True], ids=["few texts", "many texts"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_what_no_row_descends_from_is_forgotten(
    variant: str, many: bool, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many texts: their keys are stored by column."""
    monkeypatch.setattr("kit.model.decoding_session.MIN_EVICTION_LENGTH", 64)
    model = build(family, length=128, **VARIANTS[variant])
    source, prompt = (random_tokens(*(lengths * (24 if many else 1))) for lengths in ([3, 8, 5], [2, 4, 1]))
    by_column: list[int] = []
    attend = kernels.bmm_decode_attention
    monkeypatch.setattr(kernels, "bmm_decode_attention", lambda *given: by_column.append(1) or attend(*given))
    with torch.no_grad():
        shared, apart = begin(model, source), begin(model, source)
        found, keys = beam_for_long(shared, prompt, apart=False)
        assert bool(by_column) == many
        wanted, _ = beam_for_long(apart, prompt, apart=True)
    assert (found - wanted).abs().max() < 1e-10
    assert keys[0] == 4 + 4 and keys[1] == keys[0] + 2 * 4
    assert any(later < earlier for earlier, later in pairwise(keys))
    assert max(keys) < 4 + 4 * 60
    assert {tensor.shape[2] for tensor in shared.state.parts[0].parts[0].tensors()} == {keys[-1]}


def test_all_rows_may_be_dropped() -> None:
    with torch.no_grad():
        session = begin(build(), random_tokens(3, 8))
        beam_for_long(session, random_tokens(1, 1), apart=False)
        session.reorder(torch.tensor([], dtype=torch.long))
    assert session.rows == 0


def test_only_parts_that_say_so_share() -> None:
    assert build().decoder.stack.supports_shared_beams()
    assert not build(layer={"attention": AdditiveOptions(heads=4)}).decoder.stack.supports_shared_beams()
    assert not build().start(random_tokens(3), observer=AttentionRecorder()).can_share_beams


def test_what_is_grouped() -> None:
    assert group_rows([0, 0, 2, 2]) == ([0, 2], 2)
    assert group_rows([0, 2, 1]) == ([0, 2, 1], 1)
    assert group_rows([0, 0, 1]) == ([0, 0, 1], 1)
    assert own_tokens(2, 2, torch.device("cpu")).int().tolist() == [
        [1, 0, 0, 0],
        [1, 1, 0, 0],
        [0, 0, 1, 0],
        [0, 0, 1, 1],
    ]
    assert BeamTree.start(2, None, torch.device("cpu")).ancestor_RS.shape == (2, 0)
