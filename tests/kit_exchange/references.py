"""Which model of Hugging Face each recipe in recipes/known/ describes, in a small size and in the published one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Reference:
    """How one recipe is made small, and what it is then to be compared with."""

    model: str
    """The class of theirs."""
    config: dict[str, Any]
    """Options of theirs for the small model."""
    overrides: list[str]
    """The same sizes as changes to our recipe."""
    lengths: tuple[int, ...] = (9, 4, 6)
    left: bool = True
    """Whether theirs can be padded on the left; BART and Marian count positions from the start of a row."""
    waves: str = ""
    """The layout of a table of waves that theirs keeps as a weight."""
    own_output: bool = False
    """Whether the output is to be taken apart from the embedding, which their config cannot say."""
    published: dict[str, Any] = field(default_factory=dict)
    """Options of theirs for the published size, where they are not the default."""


def sizes(*sides: str, width: int = 64, length: int = 64, heads: int = 4, hidden: int = 96) -> list[str]:
    """The overrides that all small models need: two layers, four heads, fifty words."""
    changes = [f"model.width={width}", "model.vocabulary=50", f"model.length={length}"]
    for side in sides:
        stack = f"model.{side}"
        changes += [f"{stack}.depth=2", f"{stack}.attention.heads={heads}", f"{stack}.feedforward.hidden={hidden}"]
    return [*changes, f"model.decoder.cross_attention.heads={heads}"] if len(sides) == 2 else changes


SEQUENCE = {
    "vocab_size": 50, "d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 96, "decoder_ffn_dim": 96, "max_position_embeddings": 64,
    "pad_token_id": 1, "eos_token_id": 0, "bos_token_id": 2, "decoder_start_token_id": 1, "forced_eos_token_id": None,
}  # fmt: skip
OPUS = {
    "vocab_size": 58101, "d_model": 512, "encoder_layers": 6, "decoder_layers": 6, "encoder_attention_heads": 8,
    "decoder_attention_heads": 8, "encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048, "max_position_embeddings": 512,
    "pad_token_id": 58100,
}  # fmt: skip
BASE = {**OPUS, "vocab_size": 37000, "pad_token_id": 0}
BIG = {
    **BASE, "d_model": 1024, "encoder_ffn_dim": 4096, "decoder_ffn_dim": 4096, "encoder_attention_heads": 16,
    "decoder_attention_heads": 16,
}  # fmt: skip
TEXTBOOK = {**SEQUENCE, "activation_function": "relu", "scale_embedding": True}
BOTH = sizes("encoder", "decoder")
T5 = {
    "vocab_size": 50, "d_model": 64, "d_kv": 8, "d_ff": 96, "num_layers": 2, "num_heads": 4,
    "relative_attention_num_buckets": 8, "relative_attention_max_distance": 20, "decoder_start_token_id": 0,
}  # fmt: skip
T5_SIZES = [
    *BOTH, "model.position.buckets=8", "model.position.farthest=20", "model.encoder.attention.head_dim=8",
    "model.decoder.attention.head_dim=8", "model.decoder.cross_attention.head_dim=8",
]  # fmt: skip
BERT = {
    "vocab_size": 50, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96,
    "max_position_embeddings": 64,
}  # fmt: skip
LLAMA = {**BERT, "num_key_value_heads": 4, "head_dim": 16}

REFERENCES: dict[str, Reference] = {
    "vaswani-base": Reference(
        # Marian is the textbook Transformer too, if it has relu and waves in the order of the paper.
        "MarianMTModel", TEXTBOOK, BOTH, left=False, waves="interleaved", published=BASE,
    ),
    "vaswani-big": Reference("MarianMTModel", TEXTBOOK, BOTH, left=False, waves="interleaved", published=BIG),
    "marian": Reference(
        "MarianMTModel", {**SEQUENCE, "activation_function": "swish", "scale_embedding": True}, BOTH, left=False,
        waves="concatenated", published=OPUS,
    ),
    "bart": Reference("BartForConditionalGeneration", SEQUENCE, BOTH, left=False),
    "mbart": Reference(
        "MBartForConditionalGeneration", {**SEQUENCE, "scale_embedding": True}, BOTH, left=False,
        published={"vocab_size": 250027},
    ),
    "t5": Reference("T5ForConditionalGeneration", T5, T5_SIZES, lengths=(40, 11, 25)),
    "t5-v1.1": Reference(
        "T5ForConditionalGeneration", {**T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}, T5_SIZES,
        lengths=(40, 11, 25), own_output=True,
        published={
            "d_ff": 1024, "num_layers": 8, "num_heads": 6, "feed_forward_proj": "gated-gelu",
            "tie_word_embeddings": False,
        },
    ),
    "bert": Reference("BertForMaskedLM", BERT, sizes("encoder")),
    "roformer": Reference(
        "RoFormerForMaskedLM", {**BERT, "embedding_size": 64}, sizes("encoder"), waves="concatenated",
    ),
    "gpt-2": Reference(
        "GPT2LMHeadModel",
        {"vocab_size": 50, "n_positions": 64, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_inner": 96}, sizes("decoder"),
    ),
    "llama": Reference("LlamaForCausalLM", LLAMA, sizes("decoder")),
    "mistral": Reference(
        # Long enough for the window to be worked out in blocks.
        "MistralForCausalLM",
        {**LLAMA, "num_key_value_heads": 2, "sliding_window": 5, "max_position_embeddings": 256, "rms_norm_eps": 1e-5},
        [*sizes("decoder", length=256), "model.decoder.attention.kv_heads=2", "model.decoder.attention.size=5"],
        lengths=(150, 40, 131),
    ),
    "gpt-j": Reference(
        "GPTJForCausalLM",
        {
            "vocab_size": 50, "n_positions": 64, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_inner": 96,
            "rotary_dim": 4, "tie_word_embeddings": False,
        },
        sizes("decoder"),
        published={"tie_word_embeddings": False},
    ),
    "bloom": Reference(
        "BloomForCausalLM", {"vocab_size": 50, "hidden_size": 64, "n_layer": 2, "n_head": 4},
        sizes("decoder", hidden=256), published={"hidden_size": 1024, "n_layer": 24, "n_head": 16},
    ),
    "gemma-2": Reference(
        "Gemma2ForCausalLM",
        {
            **LLAMA, "num_key_value_heads": 2, "head_dim": 8, "query_pre_attn_scalar": 25, "sliding_window": 4,
            "attn_logit_softcapping": 1.5, "final_logit_softcapping": 2.0,
        },
        [
            *sizes("decoder"), "model.decoder.attention.kv_heads=2", "model.decoder.attention.head_dim=8",
            "model.decoder.attention.scale=0.2", "model.decoder.attention.logit_softcap=1.5",
            "model.head.logit_softcap=2.0",
            "model.decoder.layers[0].masks[0].size=4",
        ],
    ),
}  # fmt: skip
