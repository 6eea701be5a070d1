"""Latent attention against DeepSeek's of transformers, and what its state holds."""

from __future__ import annotations

from typing import Any, Literal

import pytest
import torch
from models.tiny_models import build, random_tokens
from torch import Tensor
from transformers import DeepseekV3Config
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3Attention

from kit import BatchLayout, CrossAttentionKVCache, KVCache, Position, TokenBatch
from kit_attention.latent import LatentOptions
from kit_attention.softmax import SoftmaxOptions
from kit_position.none import NoneOptions

from .alone import attention, build_context, context, layout, problems, vectors


class Turns(Position):
    """Rotary positions in halves, as plainly as they can be written."""

    def rotate(self, x_BHLE: Tensor, at_BL: Tensor, side: Literal["query", "key"]) -> Tensor:
        first, second = x_BHLE.chunk(2, -1)
        half = first.shape[-1]
        angles = at_BL[:, None, :, None] * 100.0 ** -(torch.arange(half, dtype=torch.float64) / half)
        sine, cosine = angles.sin(), angles.cos()
        return torch.cat([first * cosine - second * sine, first * sine + second * cosine], -1)


def turns(part: Any) -> Turns:
    return Turns(NoneOptions(), part.dims, build_context())


@pytest.mark.parametrize("query_rank", [None, 7])
def test_equals_deepseek(query_rank: int | None) -> None:
    config = DeepseekV3Config(
        hidden_size=12,
        num_attention_heads=3,
        num_key_value_heads=3,
        q_lora_rank=query_rank,
        kv_lora_rank=8,
        qk_rope_head_dim=4,
        qk_nope_head_dim=5,
        v_head_dim=6,
        rope_interleave=False,
    )
    config._attn_implementation = "eager"
    torch.manual_seed(0)
    theirs = DeepseekV3Attention(config, 0).double().eval()
    options = LatentOptions(
        heads=3, kv_lora_rank=8, rope_head_dim=4, head_dim=5, value_head_dim=6, q_lora_rank=query_rank
    )
    part = attention(options)
    with torch.no_grad():
        for parameter in theirs.parameters():
            torch.nn.init.normal_(parameter, std=0.5)
        names = {"gain": "kv_a_layernorm", "down": "kv_a_proj_with_mqa", "up": "kv_b_proj", "output": "o_proj"}
        if query_rank is None:
            names["query"] = "q_proj"
        else:
            names |= {"query_down": "q_a_proj", "query_gain": "q_a_layernorm", "query_up": "q_b_proj"}
        for mine, other in names.items():
            own = getattr(part, mine)
            (own if mine.endswith("gain") else own.weight).copy_(theirs.get_submodule(other).weight)
        x = vectors(2, 6)
        angles = torch.arange(6)[:, None] * 100.0 ** -(torch.arange(2, dtype=torch.float64) / 2)
        angles = torch.cat([angles, angles], -1)[None]
        hidden = torch.full((1, 1, 6, 6), float("-inf"), dtype=torch.float64).triu(1)
        wanted = theirs(x, (angles.cos(), angles.sin()), hidden)[0]
        found = part(x, None, context(layout(6, 6), causal=True, position=turns(part)))
    # Its norms and its softmax are in float32 whatever they are given.
    assert (found - wanted).abs().max() < 1e-5


@pytest.mark.parametrize("rank", [2, 40], ids=["compressed is cheaper", "making keys may be cheaper"])
@pytest.mark.parametrize("chunks", [(1,) * 6, (3, 2, 1), (5, 1)], ids=str)
def test_steps_with_turned_keys_equal_all_at_once(rank: int, chunks: tuple[int, ...]) -> None:
    part = attention(LatentOptions(heads=3, kv_lora_rank=rank, rope_head_dim=4, bias=True))
    x, where = vectors(2, 6), layout(6, 6)
    with torch.no_grad():
        whole = part(x, None, context(where, causal=True, position=turns(part)))
        state, found = part.start(), []
        read: BatchLayout | None = None
        start = 0
        for size in chunks:
            new = BatchLayout.of(TokenBatch(torch.zeros(2, size, dtype=torch.long)), read)
            read = new if read is None else read.join(new)
            here = context(new, causal=True, position=turns(part), keys=read)
            found.append(part(x[:, start : start + size], None, here, state))
            start += size
    assert (torch.cat(found, 1) - whole).abs().max() < 1e-12


def test_the_state_holds_compressed_vectors_and_one_turned_key() -> None:
    part = attention(LatentOptions(heads=6, kv_lora_rank=5, rope_head_dim=2))
    state = part.start()
    assert isinstance(state, KVCache)
    with torch.no_grad():
        part(vectors(2, 7), None, context(layout(7, 7), causal=True), state)
    assert [tuple(tensor.shape) for tensor in state.tensors()] == [(2, 1, 7, 5), (2, 1, 7, 2)]
    assert state.bytes == 2 * 7 * (5 + 2) * 8


def test_a_memory_is_kept_compressed_too() -> None:
    part = attention(LatentOptions(heads=3, kv_lora_rank=5, rope_head_dim=2), memory=9)
    state, memory = part.start(), vectors(2, 4, 9, seed=1)
    assert isinstance(state, CrossAttentionKVCache)
    with torch.no_grad():
        whole = part(vectors(2, 3), memory, context(layout(3, 3), keys=layout(4, 2)))
        steps = [
            part(vectors(2, 3)[:, n : n + 1], memory, context(layout(1, 1), keys=layout(4, 2)), state) for n in range(3)
        ]
    assert (torch.cat(steps, 1) - whole).abs().max() < 1e-12
    assert [tuple(tensor.shape) for tensor in state.tensors()] == [(2, 1, 4, 5), (2, 1, 4, 2)]


def test_a_session_remembers_less_than_with_keys_and_values() -> None:
    sizes = []
    for options in (SoftmaxOptions(heads=4), LatentOptions(heads=4, kv_lora_rank=6, rope_head_dim=2)):
        model: Any = build("decoder", {"attention": options})
        session = model.start()
        with torch.no_grad():
            session.step(random_tokens(10).ids)
        sizes.append(session.bytes)
    assert sizes == [2 * 10 * 64 * 8, 2 * 10 * 8 * 8]


def test_unequal_heads_are_refused() -> None:
    (problem,) = problems(LatentOptions(heads=5))
    assert problem.path == ("attention", "heads") and "5 heads do not divide the width 12" in problem.message


def test_widths_left_out_are_those_of_the_paper_in_proportion() -> None:
    assert LatentOptions(heads=128, head_dim=128).widths(5120) == (512, 128, 64, 128)
