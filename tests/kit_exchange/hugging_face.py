"""Runs models of Hugging Face with random weights, in double precision where they are to be compared in double."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from kit import TokenBatch

from .references import Reference


class InDouble(TorchFunctionMode):
    """Turns every rounding to single precision within their code into one to double.

    Theirs computes norms, softmax, rotary frequencies and slopes in float32 whatever type the model has. To be compared
    in double they must be computed in double: this takes nothing away but that rounding. Whole numbers are left alone:
    T5 sorts distances into buckets in float32, by definition, and so do we.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.float and args[0].is_floating_point():
            func = Tensor.double
        args = [torch.float64 if each is torch.float32 else each for each in args]
        kwargs = {key: torch.float64 if each is torch.float32 else each for key, each in (kwargs or {}).items()}
        return func(*args, **kwargs)


@contextmanager
def precision(dtype: torch.dtype) -> Iterator[None]:
    """Everything that is made within, tables and buffers included, is made in this type."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with InDouble() if dtype == torch.float64 else nullcontext():
            yield
    finally:
        torch.set_default_dtype(before)


def waves(length: int, width: int, layout: str) -> Tensor:
    """Sines and cosines in double precision; theirs are rounded to single when they are made, by way of numpy."""
    angles = np.arange(length)[:, None] / 10_000 ** (2 * np.arange(width // 2) / width)
    parts = np.sin(angles), np.cos(angles)
    table = np.stack(parts, -1).reshape(length, width) if layout == "interleaved" else np.concatenate(parts, 1)
    return torch.from_numpy(table)


class Gelu(nn.Module):
    """BLOOM's GELU with the root of 2 / pi in full; theirs has eight digits of it, which is 1e-9 off by itself."""

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.gelu(x, approximate="tanh")


def theirs(reference: Reference, dtype: torch.dtype) -> Any:
    """Their small model, every weight moved away from where it began, so that a lost bias or norm shows."""
    torch.manual_seed(0)
    with precision(dtype):
        model = from_config(reference, **reference.config, attn_implementation="eager").eval()
    with torch.no_grad():
        for name, tensor in model.state_dict(keep_vars=True).items():
            if isinstance(tensor, nn.Parameter) or name == "final_logits_bias":
                tensor.add_(0.1 * torch.randn_like(tensor))
        if reference.model == "MarianMTModel" and reference.waves == "interleaved":
            model.final_logits_bias.zero_()  # the textbook has no such bias
        for name, module in model.named_modules():
            if reference.waves and name.endswith("embed_positions"):
                module.weight.copy_(waves(*module.weight.shape, reference.waves))
            if name.endswith("gelu_impl") and dtype == torch.float64:
                model.set_submodule(name, Gelu())
    return model


def from_config(reference: Reference, **options: Any) -> Any:
    """Their model with random weights."""
    model_type = getattr(transformers, reference.model)
    model = model_type(model_type.config_class(**options))
    if reference.own_output:
        # T5's config takes `tie_word_embeddings: false` to mean that outputs are not scaled, and ties them all the
        # same; the released weights of v1.1 have an output of their own.
        model.lm_head.weight = nn.Parameter(0.2 * torch.randn_like(model.lm_head.weight))
    return model


def their_scores(model: Any, source: TokenBatch, target: TokenBatch, dtype: torch.dtype) -> Tensor:
    """What theirs gives for these texts; models that can be told positions are told those of real tokens."""
    accepted = inspect.signature(model.forward).parameters
    given: dict[str, Any] = {"input_ids": source.ids, "attention_mask": _real(source).long()}
    if model.config.is_encoder_decoder:
        given |= {"decoder_input_ids": target.ids, "decoder_attention_mask": _real(target).long()}
    elif "position_ids" in accepted:
        given["position_ids"] = (_real(source).cumsum(1) - 1).clamp(min=0)
    if hasattr(model.config, "type_vocab_size"):
        given["token_type_ids"] = source.features["segment"]
    if "use_cache" in accepted:
        given["use_cache"] = False
    with torch.no_grad(), precision(dtype):
        scores: Tensor = model(**given).logits
    return scores


def _real(tokens: TokenBatch) -> Tensor:
    return torch.ones_like(tokens.ids, dtype=torch.bool) if tokens.padding_mask is None else tokens.padding_mask
