"""Fills CTranslate2's Transformer specification with the weights of a planned model."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from kit_exporter.ctranslate2_plan import ACTIVATIONS, Planner, TowerPlan
from kit_exporter.part_description import Description, Linear


def specification(plan: Planner, length: int) -> Any:
    """Returns the specification that CTranslate2 saves as a model; the plan must have no problems."""
    from ctranslate2 import specs

    decoder = _decoder(plan, length, cross_attention="encoder" in plan.towers)
    if "encoder" in plan.towers:
        spec = specs.TransformerSpec(_encoder(plan.towers["encoder"], length), decoder)
    else:
        spec = specs.TransformerDecoderModelSpec(decoder)
    norms = next(iter(plan.towers.values())).norms
    spec.config.layer_norm_epsilon = next(iter(norms[0].values()))["epsilon"]
    return spec


def _common_arguments(tower: TowerPlan) -> dict[str, Any]:
    """Returns the arguments that encoder and decoder specifications have in common."""
    from ctranslate2.specs import common_spec

    first, position = tower.layers[0], tower.position
    attention, feedforward = first["attention"], first["feedforward"]
    width = tower.embedding["table"].shape[1]
    arguments: dict[str, Any] = {
        "activation": getattr(common_spec.Activation, ACTIVATIONS[feedforward["activation"]]),
        "pre_norm": True,
        "no_final_norm": tower.final_norm is None,
        "layernorm_embedding": tower.embedding_norm is not None,
        "ffn_glu": "gate" in feedforward,
        "rms_norm": next(iter(tower.norms[0].values()))["type"] == "rms_norm",
    }
    if attention["head_dim"] * attention["heads"] != width:
        arguments["head_dim"] = attention["head_dim"]
    if any(layer["attention"]["kv_heads"] != attention["heads"] for layer in tower.layers):
        arguments["num_heads_kv"] = attention["kv_heads"]
    if "rotary_dim" in position:
        arguments |= {"rotary_dim": position["rotary_dim"], "rotary_base": position["rotary_base"]}
        arguments["rotary_interleave"] = position["rotary_layout"] == "interleaved"
    return arguments


def _encoder(tower: TowerPlan, length: int) -> Any:
    from ctranslate2.specs import transformer_spec

    spec = transformer_spec.TransformerEncoderSpec(
        len(tower.layers), tower.layers[0]["attention"]["heads"], **_common_arguments(tower)
    )
    _fill(spec, tower, spec.embeddings[0], length)
    return spec


def _decoder(plan: Planner, length: int, cross_attention: bool) -> Any:
    from ctranslate2.specs import transformer_spec

    tower, head = plan.towers["decoder"], plan.head
    more = {"alibi": True, "alibi_use_positive_positions": False} if "alibi" in tower.position else {}
    heads = tower.layers[0]["attention"]["heads"]
    spec = transformer_spec.TransformerDecoderSpec(
        len(tower.layers), heads, with_encoder_attention=cross_attention, **_common_arguments(tower), **more
    )
    _fill(spec, tower, spec.embeddings, length)
    weight = tower.embedding["output"] if head["weight"] is None else head["weight"]
    spec.projection.weight = _array(weight if head["scale"] == 1.0 else weight * head["scale"])
    if head["bias"] is not None:
        spec.projection.bias = _array(head["bias"])
    if "logit_softcap" in head:
        spec.final_logit_softcapping = np.float32(head["logit_softcap"])
    return spec


def _fill(spec: Any, tower: TowerPlan, embeddings: Any, length: int) -> None:
    spec.pre_norm = tower.layers[0]["residual"]["norm_position"] == "pre"
    spec.scale_embeddings = False if tower.embedding["scale"] == 1.0 else np.float32(tower.embedding["scale"])
    embeddings.weight = _array(tower.embedding["table"])
    if hasattr(spec, "position_encodings"):
        # Without a table CTranslate2 would add sinusoidal positions.
        zeros = torch.zeros(length, tower.embedding["table"].shape[1])
        spec.position_encodings.encodings = _array(tower.position.get("table", zeros))
    if tower.final_norm is not None:
        _norm(spec.layer_norm, tower.final_norm)
    if tower.embedding_norm is not None:
        _norm(spec.layernorm_embedding, tower.embedding_norm)
    for layer_spec, layer, norms in zip(spec.layer, tower.layers, tower.norms, strict=True):
        _attention(layer_spec.self_attention, layer["attention"], cross_attention=False)
        _norm(layer_spec.self_attention.layer_norm, norms["attention"])
        if "cross_attention" in layer:
            _attention(layer_spec.attention, layer["cross_attention"], cross_attention=True)
            _norm(layer_spec.attention.layer_norm, norms["cross_attention"])
        feedforward = layer["feedforward"]
        up = "linear_0_noact" if "gate" in feedforward else "linear_0"
        _linear(getattr(layer_spec.ffn, up), feedforward["up"])
        if "gate" in feedforward:
            _linear(layer_spec.ffn.linear_0, feedforward["gate"])
        _linear(layer_spec.ffn.linear_1, feedforward["down"])
        _norm(layer_spec.ffn.layer_norm, norms["feedforward"])


def _attention(spec: Any, terms: Description, cross_attention: bool) -> None:
    if terms["scale"] != terms["head_dim"] ** -0.5:
        spec.queries_scale = np.float32(terms["scale"])
    if terms["kv_heads"] != terms["heads"]:
        object.__setattr__(spec, "num_heads_kv", np.int32(terms["kv_heads"]))
    elif hasattr(spec, "num_heads_kv"):
        spec.num_heads_kv = np.int32(terms["heads"])
    parts = [terms["query"], terms["key"], terms["value"]]
    if cross_attention:
        _linear(spec.linear[0], parts[0])
        _linear(spec.linear[1], _joined(parts[1:]))
    else:
        _linear(spec.linear[0], _joined(parts))
    _linear(spec.linear[-1], terms["output"])


def _joined(parts: list[Linear]) -> Linear:
    biases = [bias for _, bias in parts if bias is not None]
    return torch.cat([weight for weight, _ in parts]), torch.cat(biases) if biases else None


def _linear(spec: Any, linear: Linear) -> None:
    spec.weight = _array(linear[0])
    if linear[1] is not None:
        spec.bias = _array(linear[1])


def _norm(spec: Any, terms: Description) -> None:
    spec.gamma = _array(terms["weight"])
    if terms["type"] == "layer_norm":
        spec.beta = _array(torch.zeros_like(terms["weight"]) if terms["bias"] is None else terms["bias"])


def _array(tensor: Tensor) -> Any:
    # A copy, because quantization works in place.
    return tensor.detach().float().cpu().numpy().copy()
