"""What a user relies on of every assembled model: padding, the future, steps, choosing rows, watching, packing."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from models.tiny_models import build, random_tokens
from torch import Tensor

from kit import AttentionRecorder, DecodingSession, EncoderDecoder, Model, TokenBatch
from kit_attention.additive import AdditiveOptions
from kit_attention.softmax import SoftmaxOptions
from kit_position.learned import LearnedOptions
from kit_position.none import NoneOptions
from kit_residual.pre import PreOptions

VARIANTS: dict[str, dict[str, Any]] = {
    "textbook": {},
    "pre": {"layer": {"residual": PreOptions()}},
    "grouped": {"layer": {"attention": SoftmaxOptions(heads=4, kv_heads=2)}},
    "one key": {"layer": {"attention": SoftmaxOptions(heads=4, kv_heads=1, head_dim=5, value_head_dim=3)}},
    "low rank": {"layer": {"attention": SoftmaxOptions(heads=4, value_lora_rank=6, bias=False)}},
    "unscaled": {"layer": {"attention": SoftmaxOptions(heads=2, scale=1.0)}},
    "additive": {"layer": {"attention": AdditiveOptions(heads=4)}},
    "learned": {"position": LearnedOptions()},
    "no position": {"position": NoneOptions()},
}
FAMILIES = ["encoder-decoder", "decoder"]


def run(model: Model, source: TokenBatch, target: TokenBatch) -> Tensor:
    return model(source, target) if isinstance(model, EncoderDecoder) else model(target=target)


def begin(model: Any, source: TokenBatch) -> DecodingSession:
    session: DecodingSession = model.start(source) if isinstance(model, EncoderDecoder) else model.start()
    return session


@pytest.fixture(params=VARIANTS, scope="module")
def variant(request: pytest.FixtureRequest) -> dict[str, Any]:
    return VARIANTS[request.param]


@pytest.mark.parametrize("family", FAMILIES)
def test_padding_on_either_side_changes_nothing(family: str, variant: dict[str, Any]) -> None:
    model = build(family, **variant)
    with torch.no_grad():
        alone = [
            run(model, random_tokens(5), random_tokens(4, seed=1)),
            run(model, random_tokens(5, 8), random_tokens(4, 6, seed=1))[1:],
        ]
        for left in (False, True):
            together = run(model, random_tokens(5, 8, left=left), random_tokens(4, 6, left=left, seed=1))
            first = together[0, -4:] if left else together[0, :4]
            assert (first - alone[0][0]).abs().max() < 1e-10
            assert (together[1] - alone[1][0]).abs().max() < 1e-10


def test_padding_changes_nothing_in_an_encoder(variant: dict[str, Any]) -> None:
    model = build("encoder", **variant)
    with torch.no_grad():
        alone = model(random_tokens(5))[0]
        assert (model(random_tokens(5, 8))[0, :5] - alone).abs().max() < 1e-10
        assert (model(random_tokens(5, 8, left=True))[0, -5:] - alone).abs().max() < 1e-10


@pytest.mark.parametrize("family", FAMILIES)
def test_the_future_never_leaks(family: str, variant: dict[str, Any]) -> None:
    """Bit for bit: changing later tokens changes no earlier score."""
    model = build(family, **variant)
    target = random_tokens(7, 7, seed=1)
    with torch.no_grad():
        before = run(model, random_tokens(5, 8), target)
        for place in range(1, 7):
            changed = target.ids.clone()
            changed[:, place:] = (changed[:, place:] + 11) % 49 + 1
            after = run(model, random_tokens(5, 8), TokenBatch(changed))
            assert torch.equal(before[:, :place], after[:, :place])
            assert not torch.equal(before[:, place:], after[:, place:])


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("chunks", [(1,) * 6, (4, 1, 1), (2, 3, 1)], ids=str)
def test_steps_equal_all_at_once(family: str, variant: dict[str, Any], chunks: tuple[int, ...]) -> None:
    """Also with texts of unequal length, padded on either side."""
    model = build(family, **variant)
    for left in (False, True):
        source, target = random_tokens(3, 8, left=left), random_tokens(4, 6, left=left, seed=1)
        assert target.padding_mask is not None
        with torch.no_grad():
            whole = run(model, source, target)
            session = begin(model, source)
            parts, start = [], 0
            for size in chunks:
                piece = slice(start, start + size)
                parts.append(session.step(TokenBatch(target.ids[:, piece], target.padding_mask[:, piece])))
                start += size
        difference = (torch.cat(parts, 1) - whole)[target.padding_mask].abs().max()
        assert difference < 1e-10


@pytest.mark.parametrize("family", FAMILIES)
def test_chosen_rows_go_on_as_if_alone(family: str, variant: dict[str, Any]) -> None:
    model = build(family, **variant)
    source, target = random_tokens(3, 8, 5), random_tokens(7, 7, 7, seed=1)
    with torch.no_grad():
        session = begin(model, source)
        session.step(target.ids[:, :3])
        rows = torch.tensor([2, 0, 2, 1])
        session.reorder(rows)
        session.step(target.ids[rows, 3:4])
        rows = rows[[3, 0]]
        session.reorder(torch.tensor([3, 0]))
        found = session.step(target.ids[rows, 4:])
        wanted = run(model, source, target)[rows, 4:]
    assert (found - wanted).abs().max() < 1e-10


@pytest.mark.parametrize("family", [*FAMILIES, "encoder"])
def test_watching_changes_nothing(family: str, variant: dict[str, Any]) -> None:
    model = build(family, **variant)
    source, target = random_tokens(3, 8), random_tokens(4, 6, seed=1)
    tokens = source if family == "encoder" else target
    recorder = AttentionRecorder()
    with torch.no_grad():
        unwatched = model(source, target) if family != "encoder" else model(source)
        watched = model(source, target if family != "encoder" else None, observer=recorder)
    assert tokens.padding_mask is not None
    assert (watched - unwatched)[tokens.padding_mask].abs().max() < 1e-10
    expected = {"encoder": 2, "decoder": 2, "encoder-decoder": 6}[family]
    assert len(recorder.by_site) == expected
    for name, weights in recorder.by_site.items():
        queries = source.padding_mask if name.startswith("encoder") else target.padding_mask
        assert queries is not None
        sums = weights.sum(-1).transpose(1, 2)[queries]
        assert (sums - 1).abs().max() < 1e-10


@pytest.mark.parametrize("family", [*FAMILIES, "encoder"])
def test_leaving_padding_out_of_memory_changes_nothing(family: str, variant: dict[str, Any]) -> None:
    model = build(family, **variant)
    for left in (False, True):
        source, target = random_tokens(3, 8, left=left), random_tokens(4, 6, left=left, seed=1)
        tokens = source if family == "encoder" else target
        given = {"source": source} if family == "encoder" else {"source": source, "target": target}
        assert tokens.padding_mask is not None
        padded = model(**given)[tokens.padding_mask]
        packed = model(**given, packed=True)
        assert packed.shape == padded.shape
        assert (packed - padded).abs().max() < 1e-10


@pytest.mark.parametrize("family", [*FAMILIES, "encoder"])
@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
def test_every_parameter_gets_a_finite_gradient(family: str, variant: dict[str, Any], packed: bool) -> None:
    model = build(family, **variant).train()
    source, target = random_tokens(3, 8), random_tokens(4, 6, seed=1)
    given = {"source": source} if family == "encoder" else {"source": source, "target": target}
    scores = model(**given, packed=packed)
    scores.log_softmax(-1)[..., 3].sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


def test_a_query_that_sees_nothing_gives_zero_and_finite_gradients() -> None:
    """A source that is all padding: cross attention has nothing to look at."""
    model = build()
    source = TokenBatch(random_tokens(4, 4).ids, torch.tensor([[True] * 4, [False] * 4]))
    recorder = AttentionRecorder()
    scores = model(source, random_tokens(3, 3, seed=1), observer=recorder)
    assert recorder.by_site["decoder.0.cross_attention"][1].abs().max() == 0
    assert scores.isfinite().all()
    plain = model(source, random_tokens(3, 3, seed=1))
    assert (plain - scores).abs().max() < 1e-10
    plain.sum().backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in model.parameters())
