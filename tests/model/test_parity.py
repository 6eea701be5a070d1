"""The assembled model against torch.nn.Transformer and Hugging Face, with the same weights in both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from models.tiny_models import KIT, build, random_tokens
from torch import nn

from kit import BatchLayout, BuildContext, Dims, EncoderOutput, TokenBatch
from kit.model.builder import ModelBuilder
from kit_attention.softmax import SoftmaxOptions
from kit_embedding.token import TokenOptions
from kit_exchange.weight_map import WeightMap
from kit_feedforward.gelu import GeluOptions
from kit_feedforward.relu import ReluOptions
from kit_head.language import LanguageOptions
from kit_norm.layer import LayerOptions
from kit_position.learned import LearnedOptions
from kit_position.sinusoidal import SinusoidalOptions
from kit_residual.post import PostOptions
from kit_residual.pre import PreOptions
from kit_stack.options import TransformerOptions

KNOWN = Path(__file__).parents[2] / "recipes" / "known"
BOUNDS = {torch.float32: 1e-5, torch.float64: 1e-10}


def copy_layers(ours: Any, theirs: Any, cross: bool) -> None:
    """Weights of nn.TransformerEncoder or nn.TransformerDecoder into our stack, tensor by tensor."""
    for mine, other in zip(ours.layers, theirs.layers, strict=True):
        mine.attention.query_key_value.weight.copy_(other.self_attn.in_proj_weight)
        mine.attention.query_key_value.bias.copy_(other.self_attn.in_proj_bias)
        mine.attention.output.load_state_dict(other.self_attn.out_proj.state_dict())
        norms = mine.residual.norms
        norms["attention"].load_state_dict(other.norm1.state_dict())
        if cross:
            q, kv = other.multihead_attn.in_proj_weight.split((32, 64))
            mine.cross_attention.query.weight.copy_(q)
            mine.cross_attention.key_value.weight.copy_(kv)
            mine.cross_attention.query.bias.copy_(other.multihead_attn.in_proj_bias[:32])
            mine.cross_attention.key_value.bias.copy_(other.multihead_attn.in_proj_bias[32:])
            mine.cross_attention.output.load_state_dict(other.multihead_attn.out_proj.state_dict())
            norms["cross_attention"].load_state_dict(other.norm2.state_dict())
        norms["feedforward"].load_state_dict((other.norm3 if cross else other.norm2).state_dict())
        mine.feedforward.up.load_state_dict(other.linear1.state_dict())
        mine.feedforward.down.load_state_dict(other.linear2.state_dict())
    ours.final_norm.load_state_dict(theirs.norm.state_dict())


def randomise(module: nn.Module) -> None:
    """Biases and norms away from their round values, so that a lost one shows."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("residual", [PostOptions(), PreOptions()], ids=["post", "pre"])
@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
def test_equals_torch_transformer(residual: Any, dtype: torch.dtype, packed: bool) -> None:
    """Padding, causal and cross masks, all together."""
    theirs = nn.Transformer(
        32, 4, 2, 2, 64, dropout=0.0, batch_first=True, norm_first=isinstance(residual, PreOptions), dtype=dtype
    )
    randomise(theirs)
    ours = build(layer={"residual": residual, "final_norm": True}).to(dtype)
    with torch.no_grad():
        copy_layers(ours.encoder.stack, theirs.encoder, cross=False)
        copy_layers(ours.decoder.stack, theirs.decoder, cross=True)
    source, target = random_tokens(7, 3, 5), random_tokens(4, 6, 2, seed=1)
    assert source.padding_mask is not None and target.padding_mask is not None
    x, y = torch.randn(3, 7, 32, dtype=dtype), torch.randn(3, 6, 32, dtype=dtype)
    wanted = theirs(
        x,
        y,
        tgt_mask=nn.Transformer.generate_square_subsequent_mask(6, dtype=dtype),
        src_key_padding_mask=~source.padding_mask,
        tgt_key_padding_mask=~target.padding_mask,
        memory_key_padding_mask=~source.padding_mask,
    )
    left, right = BatchLayout.of(source), BatchLayout.of(target)
    if packed:
        left, right = left.packed(), right.packed()
    memory = EncoderOutput(ours.encoder.stack(left.unpad(x), left), left)
    found = ours.decoder.stack(right.unpad(y), right, memory)
    difference = (right.pad(found) - wanted)[target.padding_mask].abs().max().item()
    assert difference < BOUNDS[dtype]


MARIAN = {
    "layer": {"attention": SoftmaxOptions(heads=4), "feedforward": GeluOptions(hidden=64), "residual": PostOptions()},
    "embedding": TokenOptions(scale=True),
    "tie": "all",
    "position": SinusoidalOptions(layout="concatenated"),
    "head": LanguageOptions(bias=True),
}
BART = {**MARIAN, "position": LearnedOptions(), "embedding_norm": True, "embedding": TokenOptions()}
MBART = {**BART, "layer": {**MARIAN["layer"], "residual": PreOptions()}, "embedding": TokenOptions(scale=True)}


def waves(length: int, width: int) -> torch.Tensor:
    """Marian's table in double precision; its own is rounded to single."""
    angles = np.arange(length)[:, None] / 10_000 ** (2 * np.arange(width // 2) / width)
    return torch.from_numpy(np.concatenate([np.sin(angles), np.cos(angles)], 1))


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize(("name", "ours"), [("Marian", MARIAN), ("Bart", BART), ("MBart", MBART)])
def test_equals_hugging_face(name: str, ours: dict[str, Any], dtype: torch.dtype) -> None:
    """Random weights of theirs in our model give their logits, with padding on both sides of the model."""
    config = getattr(transformers, f"{name}Config")(
        vocab_size=50, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=64, pad_token_id=1,
        eos_token_id=0, bos_token_id=2, decoder_start_token_id=1, forced_eos_token_id=None, dropout=0.0,
        scale_embedding=ours["embedding"].scale, attn_implementation="eager",
    )  # fmt: skip
    class_name = "MarianMTModel" if name == "Marian" else f"{name}ForConditionalGeneration"
    theirs = getattr(transformers, class_name)(config).to(dtype).eval()
    randomise(theirs)
    theirs.final_logits_bias.normal_()
    if name == "Marian":
        for side in (theirs.model.encoder, theirs.model.decoder):
            side.embed_positions.weight.data.copy_(waves(64, 32))
    model = build(**ours).to(dtype)
    WeightMap.read(KNOWN / f"{name.lower()}.weights.yaml").load(model, theirs.state_dict())
    source, target = random_tokens(9, 4, 6), random_tokens(5, 7, 2, seed=1)
    assert source.padding_mask is not None and target.padding_mask is not None
    with torch.no_grad():
        wanted = theirs(
            input_ids=source.ids, attention_mask=source.padding_mask.long(), decoder_input_ids=target.ids,
            decoder_attention_mask=target.padding_mask.long(), use_cache=False,
        ).logits  # fmt: skip
        found = model(source, target)
        packed = model(source, target, packed=True)
    assert (found - wanted)[target.padding_mask].abs().max().item() < BOUNDS[dtype]
    assert (packed - wanted[target.padding_mask]).abs().max().item() < BOUNDS[dtype]


def test_torch_golden() -> None:
    """Torch's own golden values of an encoder layer whose weights are cosines."""
    options = TransformerOptions(
        depth=1,
        attention=SoftmaxOptions(heads=2),
        feedforward=ReluOptions(hidden=16),
        residual=PostOptions(),
        norm=LayerOptions(),
    )
    build_context = BuildContext(ModelBuilder(KIT.registry), ("model", "encoder"), stack="encoder")
    stack = build_context.build(options, Dims(4)).double()
    reference = nn.TransformerEncoderLayer(4, 2, 16, 0.0, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter.copy_(torch.cos(torch.arange(parameter.numel(), dtype=torch.float64)).view_as(parameter))
        layer = stack.layers[0]
        layer.attention.query_key_value.weight.copy_(reference.self_attn.in_proj_weight)
        layer.attention.query_key_value.bias.copy_(reference.self_attn.in_proj_bias)
        layer.attention.output.load_state_dict(reference.self_attn.out_proj.state_dict())
        layer.residual.norms["attention"].load_state_dict(reference.norm1.state_dict())
        layer.residual.norms["feedforward"].load_state_dict(reference.norm2.state_dict())
        layer.feedforward.up.load_state_dict(reference.linear1.state_dict())
        layer.feedforward.down.load_state_dict(reference.linear2.state_dict())
        x = torch.tensor([[[20.0, 30, 40, 50]]], dtype=torch.float64)
        found = stack(x, BatchLayout.of(TokenBatch(torch.zeros(1, 1, dtype=torch.long))))
    golden = torch.tensor([2.258703, 0.127985, -0.697881, 0.170862], dtype=torch.float64)
    assert (found.flatten() - golden).abs().max().item() < 1e-6
