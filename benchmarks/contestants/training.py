"""Who trains against whom: the kit and what people would pick instead, each a model and its loss on the same batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kit import Kit, TokenBatch, use_fast_linear
from kit_objective.cross_entropy import cross_entropy

DROPOUT = 0.1
LONGEST = 128
"""The most tokens of a sentence."""


class Batch:
    """One batch in the form that all models take: padded ids, masks, and what is to be predicted."""

    def __init__(self, source: TokenBatch, target: TokenBatch) -> None:
        self.source, self.source_valid = source.ids, _real(source)
        self.read, self.read_valid = target.ids[:, :-1], _real(target)[:, 1:]
        self.wanted = target.ids[:, 1:].masked_fill(~self.read_valid, -100)
        self.predicted = int(self.read_valid.sum())
        self.tokens = int(self.source_valid.sum() + self.read_valid.sum())
        self.waste = 1 - self.tokens / (self.source.numel() + self.read.numel())


Contestant: TypeAlias = tuple[nn.Module, Callable[[Batch], Tensor]]
"""A model, and its loss on a batch."""


def _real(tokens: TokenBatch) -> Tensor:
    return torch.ones_like(tokens.ids, dtype=torch.bool) if tokens.padding_mask is None else tokens.padding_mask


def ours(width: int, depth: int, heads: int, vocabulary: int) -> Contestant:
    """The kit's model, padding left out of memory."""
    attention = {"use": "softmax", "heads": heads}
    layer = {"depth": depth, "attention": attention, "feedforward": "relu", "residual": "post"}
    kit = Kit()
    recipe = kit.recipe(
        {
            "name": "ours",
            "model": {
                "family": "encoder-decoder", "width": width, "vocabulary": vocabulary, "dropout": DROPOUT, "tie": "all",
                "embedding": {"use": "token", "scale": True}, "position": "sinusoidal", "norm": "layer",
                "encoder": layer, "decoder": {**layer, "cross_attention": attention, "masks": ["causal"]},
            },
        }
    )  # fmt: skip
    model = kit.build(recipe)
    use_fast_linear(model)  # as kit train does

    def loss(batch: Batch) -> Tensor:
        source = TokenBatch(batch.source, batch.source_valid, right_padded=True)
        read = TokenBatch(batch.read, batch.read_valid, right_padded=True)
        total, _ = cross_entropy(model(source, read, packed=True), batch.wanted[batch.read_valid], overwrite=True)
        return total / batch.predicted

    return model, loss


class TorchModel(nn.Module):
    """torch.nn.Transformer with what it leaves to the user: embedding, positions, the way back."""

    def __init__(self, width: int, depth: int, heads: int, vocabulary: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.table.weight, std=width**-0.5)
        self.stack = nn.Transformer(width, heads, depth, depth, 4 * width, DROPOUT, batch_first=True)
        at = torch.arange(LONGEST + 8)[:, None] * 10_000.0 ** (-torch.arange(0, width, 2) / width)
        self.register_buffer("waves", torch.stack([at.sin(), at.cos()], -1).flatten(1))
        self.dropout = nn.Dropout(DROPOUT)

    def embed(self, ids: Tensor) -> Tensor:
        """Scaled, with waves."""
        return self.dropout(self.table(ids) * self.table.embedding_dim**0.5 + self.waves[: ids.shape[1]])

    def forward(self, batch: Batch) -> Tensor:
        """Scores."""
        length = batch.read.shape[1]
        causal = torch.ones(length, length, dtype=torch.bool).triu(1)
        x = self.stack(
            self.embed(batch.source), self.embed(batch.read), tgt_mask=causal, tgt_is_causal=True,
            src_key_padding_mask=~batch.source_valid, tgt_key_padding_mask=~batch.read_valid,
            memory_key_padding_mask=~batch.source_valid,
        )  # fmt: skip
        return F.linear(x, self.table.weight)


def torch_transformer(width: int, depth: int, heads: int, vocabulary: int) -> Contestant:
    """nn.Transformer."""
    model = TorchModel(width, depth, heads, vocabulary)
    return model, lambda batch: F.cross_entropy(model(batch).flatten(0, 1), batch.wanted.flatten())


def marian(width: int, depth: int, heads: int, vocabulary: int) -> Contestant:
    """Hugging Face Marian on its fast attention."""
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        vocab_size=vocabulary, d_model=width, encoder_layers=depth, decoder_layers=depth, encoder_attention_heads=heads,
        decoder_attention_heads=heads, encoder_ffn_dim=4 * width, decoder_ffn_dim=4 * width, dropout=DROPOUT,
        activation_function="relu", scale_embedding=True, max_position_embeddings=LONGEST + 8, pad_token_id=0,
        eos_token_id=2, bos_token_id=1, decoder_start_token_id=1, attn_implementation="sdpa",
    )  # fmt: skip
    model = MarianMTModel(config)

    def loss(batch: Batch) -> Tensor:
        scores = model(
            input_ids=batch.source, attention_mask=batch.source_valid.long(), decoder_input_ids=batch.read,
            decoder_attention_mask=batch.read_valid.long(), use_cache=False,
        ).logits  # fmt: skip
        return F.cross_entropy(scores.flatten(0, 1), batch.wanted.flatten())

    return model, loss


def x_transformers(width: int, depth: int, heads: int, vocabulary: int) -> Contestant:
    """x-transformers on torch's fused attention."""
    from x_transformers import XTransformer

    side = {"num_tokens": vocabulary, "depth": depth, "heads": heads, "max_seq_len": LONGEST + 8, "attn_dim_head": 64,
            "attn_flash": True, "ff_dropout": DROPOUT, "emb_dropout": DROPOUT}  # fmt: skip
    named = {f"{prefix}_{key}": value for prefix in ("enc", "dec") for key, value in side.items()}
    model = XTransformer(dim=width, tie_token_emb=True, **named)

    def loss(batch: Batch) -> Tensor:
        memory = model.encoder(batch.source, mask=batch.source_valid, return_embeddings=True)
        scores = model.decoder.net(batch.read, mask=batch.read_valid, context=memory, context_mask=batch.source_valid)
        return F.cross_entropy(scores.flatten(0, 1), batch.wanted.flatten())

    return model, loss


CONTESTANTS = {
    "the kit": ours,
    "torch.nn.Transformer": torch_transformer,
    "HF Marian": marian,
    "x-transformers": x_transformers,
}
