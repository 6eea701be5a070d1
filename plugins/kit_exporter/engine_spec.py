"""Fills CTranslate2's specification of a Transformer with the weights of a model that it can express."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from kit_exporter.engine_plan import ACTIVATIONS, Planner, SidePlan
from kit_exporter.terms import Linear, Terms


def specification(plan: Planner, length: int) -> Any:
    """What CTranslate2 saves as a model; `plan` has no problems."""
    from ctranslate2 import specs

    decoder = _decoder(plan, length, crossing="encoder" in plan.sides)
    if "encoder" in plan.sides:
        spec = specs.TransformerSpec(_encoder(plan.sides["encoder"], length), decoder)
    else:
        spec = specs.TransformerDecoderModelSpec(decoder)
    norms = next(iter(plan.sides.values())).norms
    spec.config.layer_norm_epsilon = next(iter(norms[0].values()))["epsilon"]
    return spec


def _shape(side: SidePlan) -> dict[str, Any]:
    """What both kinds of stack are told."""
    from ctranslate2.specs import common_spec

    first, position = side.layers[0], side.position
    attention, feedforward = first["attention"], first["feedforward"]
    width = side.embedding["table"].shape[1]
    shape: dict[str, Any] = {
        "activation": getattr(common_spec.Activation, ACTIVATIONS[feedforward["activation"]]),
        "pre_norm": True,
        "no_final_norm": side.final_norm is None,
        "layernorm_embedding": side.embedding_norm is not None,
        "ffn_glu": "gate" in feedforward,
        "rms_norm": next(iter(side.norms[0].values()))["by"] == "square",
    }
    if attention["key_width"] * attention["heads"] != width:
        shape["head_dim"] = attention["key_width"]
    if any(layer["attention"]["groups"] != attention["heads"] for layer in side.layers):
        shape["num_heads_kv"] = attention["groups"]
    if "turning" in position:
        shape |= {"rotary_dim": position["turning"], "rotary_base": position["base"]}
        shape["rotary_interleave"] = position["pairs"] == "interleaved"
    return shape


def _encoder(side: SidePlan, length: int) -> Any:
    from ctranslate2.specs import transformer_spec

    spec = transformer_spec.TransformerEncoderSpec(
        len(side.layers), side.layers[0]["attention"]["heads"], **_shape(side)
    )
    _fill(spec, side, spec.embeddings[0], length)
    return spec


def _decoder(plan: Planner, length: int, crossing: bool) -> Any:
    from ctranslate2.specs import transformer_spec

    side, head = plan.sides["decoder"], plan.head
    more = {"alibi": True, "alibi_use_positive_positions": False} if "penalty" in side.position else {}
    heads = side.layers[0]["attention"]["heads"]
    spec = transformer_spec.TransformerDecoderSpec(
        len(side.layers), heads, with_encoder_attention=crossing, **_shape(side), **more
    )
    _fill(spec, side, spec.embeddings, length)
    weight = side.embedding["back"] if head["weight"] is None else head["weight"]
    spec.projection.weight = _plain(weight if head["factor"] == 1.0 else weight * head["factor"])
    if head["bias"] is not None:
        spec.projection.bias = _plain(head["bias"])
    if "cap" in head:
        spec.final_logit_softcapping = np.float32(head["cap"])
    return spec


def _fill(spec: Any, side: SidePlan, embeddings: Any, length: int) -> None:
    spec.pre_norm = side.layers[0]["residual"]["place"] == "pre"
    spec.scale_embeddings = False if side.embedding["factor"] == 1.0 else np.float32(side.embedding["factor"])
    embeddings.weight = _plain(side.embedding["table"])
    if hasattr(spec, "position_encodings"):
        # Without a table it would add waves of its own.
        nowhere = torch.zeros(length, side.embedding["table"].shape[1])
        spec.position_encodings.encodings = _plain(side.position.get("added", nowhere))
    if side.final_norm is not None:
        _norm(spec.layer_norm, side.final_norm)
    if side.embedding_norm is not None:
        _norm(spec.layernorm_embedding, side.embedding_norm)
    for layer_spec, layer, norms in zip(spec.layer, side.layers, side.norms, strict=True):
        _attention(layer_spec.self_attention, layer["attention"], crossing=False)
        _norm(layer_spec.self_attention.layer_norm, norms["attention"])
        if "cross_attention" in layer:
            _attention(layer_spec.attention, layer["cross_attention"], crossing=True)
            _norm(layer_spec.attention.layer_norm, norms["cross_attention"])
        feedforward = layer["feedforward"]
        up = "linear_0_noact" if "gate" in feedforward else "linear_0"
        _linear(getattr(layer_spec.ffn, up), feedforward["up"])
        if "gate" in feedforward:
            _linear(layer_spec.ffn.linear_0, feedforward["gate"])
        _linear(layer_spec.ffn.linear_1, feedforward["down"])
        _norm(layer_spec.ffn.layer_norm, norms["feedforward"])


def _attention(spec: Any, terms: Terms, crossing: bool) -> None:
    if terms["scale"] != terms["key_width"] ** -0.5:
        spec.queries_scale = np.float32(terms["scale"])
    if terms["groups"] != terms["heads"]:
        object.__setattr__(spec, "num_heads_kv", np.int32(terms["groups"]))
    elif hasattr(spec, "num_heads_kv"):
        spec.num_heads_kv = np.int32(terms["heads"])
    parts = [terms["query"], terms["key"], terms["value"]]
    if crossing:
        _linear(spec.linear[0], parts[0])
        _linear(spec.linear[1], _joined(parts[1:]))
    else:
        _linear(spec.linear[0], _joined(parts))
    _linear(spec.linear[-1], terms["output"])


def _joined(parts: list[Linear]) -> Linear:
    biases = [bias for _, bias in parts if bias is not None]
    return torch.cat([weight for weight, _ in parts]), torch.cat(biases) if biases else None


def _linear(spec: Any, linear: Linear) -> None:
    spec.weight = _plain(linear[0])
    if linear[1] is not None:
        spec.bias = _plain(linear[1])


def _norm(spec: Any, terms: Terms) -> None:
    spec.gamma = _plain(terms["scale"])
    if terms["by"] == "variance":
        spec.beta = _plain(torch.zeros_like(terms["scale"]) if terms["shift"] is None else terms["shift"])


def _plain(tensor: Tensor) -> Any:
    # A copy: what is quantized is multiplied in place.
    return tensor.detach().float().cpu().numpy().copy()
