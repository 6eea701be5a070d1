"""Descriptions of parts in fixed terms, for engines with a fixed set of architectures.

A part of another package is described by a method `export_description(self)` of its own class, which returns the same
terms as the parts of its kind here. An inherited method does not count, because a variant computes something else. An
engine refuses parts with terms that it does not know, so that nothing is lost silently.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from torch import Tensor

from kit import Special

Description: TypeAlias = Mapping[str, Any]
Linear: TypeAlias = tuple[Tensor, Tensor | None]
"""A matrix [out, in] and a bias."""


def describe(part: object) -> Description | None:
    """Returns the description of a part; None if there is none."""
    kind = type(part)
    own = vars(kind).get("export_description")
    known = DESCRIPTIONS.get(f"{kind.__module__}.{kind.__qualname__}") if own is None else own
    return None if known is None else known(part)


def attention(part: Any) -> Description:
    """Describes scaled dot-product attention; low-rank values are multiplied out."""
    sizes = (part.k_size, part.v_size)
    if part.dims.memory is None:
        q, k, v = _split(part.query_key_value, (part.q_size, *sizes))
    else:
        (q,), (k, v) = _split(part.query, (part.q_size,)), _split(part.key_value, sizes)
    if hasattr(part, "value_up"):
        up = part.value_up.weight
        v = (up @ v[0], None if v[1] is None else up @ v[1])
    terms = {
        "heads": part.heads, "kv_heads": part.kv_heads, "head_dim": part.head_dim,
        "value_head_dim": part.value_head_dim,
        "scale": part.scale, "query": q, "key": k, "value": v, "output": _linear(part.output),
    }  # fmt: skip
    return terms if part.options.logit_softcap is None else {**terms, "logit_softcap": part.options.logit_softcap}


def hidden(activation: str) -> Callable[[Any], Description]:
    """Describes an MLP of two matrices."""
    return lambda part: {"activation": activation, "up": _linear(part.up), "down": _linear(part.down)}


def gated(activation: str) -> Callable[[Any], Description]:
    """Describes a gated MLP: down(activation(gate) · up)."""

    def terms(part: Any) -> Description:
        gate, up = _split(part.gate_up, (part.hidden, part.hidden))
        return {"activation": activation, "gate": gate, "up": up, "down": _linear(part.down)}

    return terms


def gelu(part: Any) -> Description:
    """Describes an MLP with GELU, exact or with tanh."""
    return hidden("gelu" if part.options.approximate == "none" else "gelu_tanh")(part)


def geglu(part: Any) -> Description:
    """Describes a gated MLP with GELU."""
    return gated("gelu" if part.options.approximate == "none" else "gelu_tanh")(part)


def layer_norm(part: Any) -> Description:
    """Describes LayerNorm."""
    return {"type": "layer_norm", "weight": part.weight, "bias": part.bias, "epsilon": part.options.epsilon}


def rms_norm(part: Any) -> Description:
    """Describes RMSNorm."""
    weight = 1 + part.weight if part.options.weight == "offset" else part.weight
    return {"type": "rms_norm", "weight": weight, "bias": None, "epsilon": part.options.epsilon}


def residual(norm_position: str) -> Callable[[Any], Description]:
    """Describes a residual stream by the position of its norms, `pre` or `post`."""
    return lambda part: {"norm_position": norm_position, "norms": dict(part.norms)}


def table(part: Any) -> Description:
    """Describes an embedding table and its tied output matrix."""
    return {"table": part.table, "scale": part.factor, "output": part.table}


def factorized(part: Any) -> Description:
    """Describes a factorized embedding, multiplied out."""
    output = part.table @ part.up.T
    return {"table": output if part.bias is None else output + part.bias, "scale": part.factor, "output": output}


def pretrained(part: Any) -> Description:
    """Describes pretrained vectors, with their projection multiplied out."""
    output = part.table if part.width == part.dims.width else part.table @ part.up.T
    return {"table": output, "scale": 1.0, "output": output}


def language(part: Any) -> Description:
    """Describes the projection to the vocabulary; without a weight, that of the embedding."""
    terms = {"weight": getattr(part, "projection", None), "bias": part.bias, "scale": part.factor}
    return terms if part.options.logit_softcap is None else {**terms, "logit_softcap": part.options.logit_softcap}


def sinusoidal(part: Any) -> Description:
    """Describes sinusoidal positions by a table of twice the model's length."""
    from torch import arange

    return {"table": part.waves(arange(max(2 * part.dims.length, 512))).float()}


def rotary(part: Any) -> Description:
    """Describes rotary positions by dimension, layout and base."""
    terms = {"rotary_dim": part.rotated, "rotary_layout": part.options.layout, "rotary_base": part.options.base}
    name = part.options.scaling.use
    return terms if name == "none" else {**terms, f"{name} scaling": part.options.scaling}


def stack(part: Any) -> Description:
    """Describes a stack by its layers, and by the position and masks of all of them."""
    names = ("attention", "cross_attention", "feedforward", "residual")
    layers = [{name: getattr(layer, name) for name in names} for layer in part.layers]
    terms = {"layers": layers, "final_norm": part.final_norm}
    if len(set(part.context_keys)) > 1:
        return {**terms, "layers that differ in masks or positions": part.context_keys}
    mask, position = part.context_keys[0]
    masks = part.masks[mask]
    return {
        **terms,
        "position": part.positions[position] if position else None,
        "masks": [] if masks is None else list(getattr(masks, "parts", [masks])),
    }


def _linear(module: Any) -> Linear:
    return module.weight, module.bias


def _split(module: Any, sizes: tuple[int, ...]) -> list[Linear]:
    biases = [None] * len(sizes) if module.bias is None else module.bias.split(sizes)
    return list(zip(module.weight.split(sizes), biases, strict=True))


DESCRIPTIONS: dict[str, Callable[[Any], Description]] = {
    "kit_attention.softmax.SoftmaxAttention": attention,
    "kit_embedding.factorized.FactorizedEmbedding": factorized,
    "kit_embedding.pretrained.PretrainedEmbedding": pretrained,
    "kit_embedding.token.TokenEmbedding": table,
    "kit_feedforward.geglu.GegluFeedforward": geglu,
    "kit_feedforward.gelu.GeluFeedforward": gelu,
    "kit_feedforward.glu.GluFeedforward": gated("sigmoid"),
    "kit_feedforward.reglu.RegluFeedforward": gated("relu"),
    "kit_feedforward.relu.ReluFeedforward": hidden("relu"),
    "kit_feedforward.silu.SiluFeedforward": hidden("silu"),
    "kit_feedforward.swiglu.SwigluFeedforward": gated("silu"),
    "kit_head.language.LanguageHead": language,
    "kit_mask.causal.CausalMask": lambda part: {"causal": True},
    "kit_norm.layer.LayerNorm": layer_norm,
    "kit_norm.rms.RmsNorm": rms_norm,
    "kit_position.alibi.AlibiPosition": lambda part: {"alibi": part.options.direction},
    "kit_position.learned.LearnedPosition": lambda part: {"table": part.table},
    "kit_position.none.NoPosition": lambda part: {},
    "kit_position.rotary.RotaryPosition": rotary,
    "kit_position.sinusoidal.SinusoidalPosition": sinusoidal,
    "kit_residual.post.PostResidual": residual("post"),
    "kit_residual.pre.PreResidual": residual("pre"),
    "kit_stack.transformer.TransformerStack": stack,
}
"""By the full name of a class, so that parts of the same name are told apart."""

SUPPRESSED_IDS = (Special.PADDING, Special.START, Special.MASK, Special.SEPARATOR)
"""Tokens that are never generated."""
