"""One random Marian model in three engines: Hugging Face, the kit, and CTranslate2; nothing is downloaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor

from kit import EncoderDecoder, Kit, SpecialTokenIds
from kit_exchange.weight_map import WeightMap

KNOWN = Path(__file__).parents[3] / "recipes" / "known"
END = 0


def hugging_face(width: int, depth: int, heads: int, vocabulary: int, seed: int = 0, **spread: float) -> Any:
    """A Marian of these sizes with random weights; the last token is padding, from which it starts.

    spread: how far weights are moved from their first values (weights), and what the end is made likelier by (end).
    """
    torch.manual_seed(seed)
    config = transformers.MarianConfig(
        vocab_size=vocabulary, d_model=width, encoder_layers=depth, decoder_layers=depth, encoder_attention_heads=heads,
        decoder_attention_heads=heads, encoder_ffn_dim=4 * width, decoder_ffn_dim=4 * width, dropout=0.0,
        activation_function="swish", scale_embedding=True, pad_token_id=vocabulary - 1, eos_token_id=END,
        decoder_start_token_id=vocabulary - 1, forced_eos_token_id=None, max_position_embeddings=512,
    )  # fmt: skip
    model = transformers.MarianMTModel(config).eval()
    angles = torch.arange(512)[:, None] / 10_000 ** (2 * torch.arange(width // 2, dtype=torch.float64) / width)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(spread.get("weights", 0.0) * torch.randn_like(parameter))
        for side in (model.model.encoder, model.model.decoder):
            side.embed_positions.weight.copy_(torch.cat([angles.sin(), angles.cos()], 1))
        model.model.shared.weight[-1] = 0.0  # decoding starts from nothing, as in Marian itself
        model.final_logits_bias.normal_(std=0.1)
        model.final_logits_bias[0, -1] = -1e9  # padding is never written
        model.final_logits_bias[0, END] += spread.get("end", 0.0)
    return model


def ours(theirs: Any) -> EncoderDecoder:
    """The same weights in a model of the kit, assembled from the published recipe."""
    config, kit = theirs.config, Kit()
    sizes = [f"model.width={config.d_model}", f"model.vocabulary={config.vocab_size}"]
    for side in ("encoder", "decoder"):
        sizes.append(f"model.{side}.depth={config.encoder_layers}")
        sizes.append(f"model.{side}.attention.heads={config.encoder_attention_heads}")
        sizes.append(f"model.{side}.feedforward.hidden={config.encoder_ffn_dim}")
    sizes.append(f"model.decoder.cross_attention.heads={config.encoder_attention_heads}")
    model = kit.build(kit.recipe(KNOWN / "marian.yaml", sizes)).eval()
    WeightMap.read(KNOWN / "marian.weights.yaml").load(model, theirs.state_dict())
    assert isinstance(model, EncoderDecoder)
    return model


def special_tokens(theirs: Any) -> SpecialTokenIds:
    """What a search must know of Marian's vocabulary."""
    return SpecialTokenIds(start=theirs.config.pad_token_id, end=END, suppressed=(theirs.config.pad_token_id,))


def ctranslate2(theirs: Any, folder: Path, threads: int | None = None) -> Any:
    """The same weights in CTranslate2, in float32; tokens are called by their numbers."""
    import ctranslate2 as engine
    from ctranslate2.converters.transformers import MarianMTLoader

    loader = MarianMTLoader()
    with torch.no_grad():
        spec = loader.get_model_spec(theirs)
    spec.register_source_vocabulary(names(theirs))
    spec.register_target_vocabulary(names(theirs))
    spec.config.eos_token = spec.config.decoder_start_token = str(END)
    spec.config.unk_token = "1"
    spec.validate()
    spec.optimize(quantization="float32")
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))
    inside = threads or torch.get_num_threads()
    return engine.Translator(str(folder), device="cpu", compute_type="float32", inter_threads=1, intra_threads=inside)


def names(theirs: Any) -> list[str]:
    """Tokens without the padding, which CTranslate2 needs none of."""
    return [str(token) for token in range(theirs.config.vocab_size - 1)]


def sources(rows: int, vocabulary: int, shortest: int, longest: int, seed: int = 1) -> list[list[int]]:
    """Random texts, each with its end."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(shortest, longest + 1, (rows,), generator=generator).tolist()
    return [[*torch.randint(2, vocabulary - 1, (n - 1,), generator=generator).tolist(), END] for n in lengths]


def written(ids: Tensor, pad: int) -> list[list[int]]:
    """What Hugging Face gave, without the start, the end and the padding."""
    return [[token for token in row[1:] if token not in (END, pad)] for row in ids.tolist()]
