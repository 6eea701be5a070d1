"""Attention of short texts in training on a CPU: torch's numbers and gradients, from packed tokens too."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from kit import AttentionContext, BatchLayout, Kit, TokenBatch
from kit.contracts.mask import Mask
from kit.kernels.attention import MAX_SEQ_LEN, bmm_attention, should_use_bmm
from kit.kernels.padding import PaddingIndex

ROWS, HEADS, LENGTH, WIDTH = 8, 8, 11, 16


def _heads(length: int = LENGTH, rows: int = ROWS) -> Tensor:
    return torch.randn(rows, HEADS, length, WIDTH, dtype=torch.float64, requires_grad=True)


def _gradients(attend: Callable[[], Tensor], inputs: list[Tensor]) -> list[Tensor]:
    out = attend()
    weight = torch.arange(out.numel(), dtype=out.dtype).view(out.shape).sin()
    return [out, *torch.autograd.grad((out * weight).sum(), inputs)]


@pytest.mark.parametrize("keys", [LENGTH, 5])
@pytest.mark.parametrize("masked", [False, True])
def test_equals_torch(keys: int, masked: bool) -> None:
    q, k, v = _heads(), _heads(keys), _heads(keys)
    hidden = torch.rand(ROWS, 1, LENGTH, keys) < 0.3
    hidden[..., 0] = False
    mask = torch.zeros(hidden.shape, dtype=q.dtype).masked_fill(hidden, float("-inf")) if masked else None
    by_head = None if mask is None else mask.expand(-1, HEADS, -1, -1).flatten(0, 1)
    ours = _gradients(lambda: bmm_attention(q, k, v, 0.3, by_head), [q, k, v])
    theirs = _gradients(lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.3), [q, k, v])
    torch.testing.assert_close(ours, theirs)


def test_gradcheck() -> None:
    q, k, v = (torch.randn(1, 2, 3, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))
    mask = torch.full((1, 3, 3), float("-inf"), dtype=torch.float64).triu(1)
    assert torch.autograd.gradcheck(lambda *heads: bmm_attention(*heads, 0.5, mask), (q, k, v))


def _scope(name: str) -> AttentionContext:
    padding_mask = torch.arange(LENGTH) < torch.randint(1, LENGTH + 1, (ROWS, 1))
    layout = BatchLayout((ROWS, LENGTH), torch.device("cpu"), None if name == "full" else padding_mask)
    mask: Mask | None = None
    if name == "causal":
        part = Kit().registry.find("mask", "causal").component
        mask = part(part.options_type())
    return AttentionContext(layout, layout, mask)


@pytest.mark.parametrize("name", ["full", "padded", "causal"])
def test_a_scope_takes_it_in_training_and_gives_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    context, q, k, v = _scope(name), _heads(), _heads(), _heads()
    ours = _gradients(lambda: context.attend(q, k, v, 0.25), [q, k, v])
    assert "BmmAttention" in _graph(context.attend(q, k, v, 0.25))
    monkeypatch.setattr("kit.kernels.attention.should_use_bmm", lambda q, k: False)
    theirs = _gradients(lambda: context.attend(q, k, v, 0.25), [q, k, v])
    assert "BmmAttention" not in _graph(context.attend(q, k, v, 0.25))
    torch.testing.assert_close(ours, theirs)


def _graph(out: Tensor) -> str:
    node, names = out.grad_fn, []
    while node is not None:
        names.append(node.name())
        node = node.next_functions[0][0] if node.next_functions else None
    return " ".join(names)


def test_it_is_not_taken_where_it_does_not_pay() -> None:
    q = _heads()
    assert should_use_bmm(q, q)
    assert not should_use_bmm(q[:1], q[:1])  # a few Python steps more than torch's kernel
    assert not should_use_bmm(q, q[:, :4])  # keys that heads share
    assert not should_use_bmm(_heads(MAX_SEQ_LEN + 1), q)
    assert not should_use_bmm(q.bfloat16(), q.bfloat16())
    with torch.no_grad():
        assert not should_use_bmm(q, q)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not should_use_bmm(q, q)


def test_heads_of_packed_tokens_go_to_their_rows_and_back() -> None:
    padding_mask = torch.tensor([[True, True, True], [True, False, False], [False, True, True]])
    index = padding_mask.flatten().nonzero().squeeze(1)
    places = PaddingIndex((3, 3), index, (4, 2, 2))
    x = torch.randn(len(index), 8 * 5, dtype=torch.float64, requires_grad=True)
    q, k, v = places.scatter(x)
    wanted = torch.zeros(9, 40, dtype=torch.float64).index_copy(0, index, x).view(3, 3, 8, 5).transpose(1, 2)
    for piece, own in zip((q, k, v), wanted.split((4, 2, 2), 1), strict=True):
        torch.testing.assert_close(piece.transpose(1, 2)[padding_mask], own.transpose(1, 2)[padding_mask])
    assert torch.equal(places.gather(q, k, v), x)
    assert torch.autograd.gradcheck(lambda given: places.gather(*(piece.sin() for piece in places.scatter(given))), x)


def test_a_model_trains_alike_packed_and_padded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loss and gradients of a whole encoder-decoder: by look-ups and products, and by torch's kernel in padded rows."""
    kit = Kit()
    attention = {"use": "softmax", "heads": 8}
    layer = {"depth": 2, "attention": attention, "feedforward": "relu", "residual": "post"}
    model = kit.build(
        kit.recipe(
            {
                "name": "small",
                "model": {
                    "family": "encoder-decoder", "width": 32, "vocabulary": 20, "dropout": 0.0, "norm": "layer",
                    "position": "rotary", "encoder": layer,
                    "decoder": {**layer, "cross_attention": attention, "masks": ["causal"]},
                },
            }
        )
    ).double()  # fmt: skip

    def side(longest: int) -> TokenBatch:
        lengths = torch.randint(2, longest + 1, (ROWS, 1))
        lengths[0] = longest
        return TokenBatch(torch.randint(20, (ROWS, longest)), torch.arange(longest) < lengths, right_padded=True)

    torch.manual_seed(0)
    source, target = side(9), side(7)

    def run(packed: bool) -> list[Tensor]:
        scores = model(source, target, packed=packed)
        loss = (scores if packed else scores[target.padding_mask]).sin().sum()
        return [loss, *torch.autograd.grad(loss, list(model.parameters()))]

    ours = run(packed=True)
    monkeypatch.setattr("kit.kernels.attention.should_use_bmm", lambda q, k: False)
    torch.testing.assert_close(ours, run(packed=False))
