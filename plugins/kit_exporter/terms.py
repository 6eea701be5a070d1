"""Parts in plain terms: what an engine with a fixed repertoire has to know of a part to do the same.

A part of another package is understood once its own class defines `plain_terms(self)`, which returns the same words as
the parts of its kind here. An engine that does not know a word refuses the part, so nothing is lost silently; and what
a class inherits does not count, because a variant is not what it was derived from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from torch import Tensor

from kit import Special

Terms: TypeAlias = Mapping[str, Any]
Linear: TypeAlias = tuple[Tensor, Tensor | None]
"""A matrix [out, in] and a bias."""


def terms_of(part: object) -> Terms | None:
    """A part in plain terms; None where nobody has said them."""
    kind = type(part)
    own = vars(kind).get("plain_terms")
    known = TERMS.get(f"{kind.__module__}.{kind.__qualname__}") if own is None else own
    return None if known is None else known(part)


def attention(part: Any) -> Terms:
    """Scaled dot products; a value of low rank is one matrix after all."""
    sizes = (part.k_size, part.v_size)
    if part.dims.memory is None:
        q, k, v = _split(part.query_key_value, (part.q_size, *sizes))
    else:
        (q,), (k, v) = _split(part.query, (part.q_size,)), _split(part.key_value, sizes)
    if hasattr(part, "value_up"):
        up = part.value_up.weight
        v = (up @ v[0], None if v[1] is None else up @ v[1])
    terms = {
        "heads": part.heads, "groups": part.groups, "key_width": part.key_width, "value_width": part.value_width,
        "scale": part.scale, "query": q, "key": k, "value": v, "output": _linear(part.output),
    }  # fmt: skip
    return terms if part.options.cap is None else {**terms, "cap": part.options.cap}


def hidden(activation: str) -> Callable[[Any], Terms]:
    """Up, activate, down."""
    return lambda part: {"activation": activation, "up": _linear(part.up), "down": _linear(part.down)}


def gated(activation: str) -> Callable[[Any], Terms]:
    """down(activate(gate) · up)."""

    def terms(part: Any) -> Terms:
        gate, up = _split(part.gate_up, (part.hidden, part.hidden))
        return {"activation": activation, "gate": gate, "up": up, "down": _linear(part.down)}

    return terms


def gelu(part: Any) -> Terms:
    """Exact or by a tanh."""
    return hidden("gelu" if part.options.approximate == "none" else "gelu_tanh")(part)


def geglu(part: Any) -> Terms:
    """The same behind a gate."""
    return gated("gelu" if part.options.approximate == "none" else "gelu_tanh")(part)


def layer_norm(part: Any) -> Terms:
    """Mean and variance."""
    return {"by": "variance", "scale": part.weight, "shift": part.bias, "epsilon": part.options.epsilon}


def rms_norm(part: Any) -> Terms:
    """Mean square."""
    scale = 1 + part.weight if part.options.weight == "offset" else part.weight
    return {"by": "square", "scale": scale, "shift": None, "epsilon": part.options.epsilon}


def residual(place: str) -> Callable[[Any], Terms]:
    """Where the norm of each sublayer sits."""
    return lambda part: {"place": place, "norms": dict(part.norms)}


def table(part: Any) -> Terms:
    """A vector for each token, and the matrix of the way back."""
    return {"table": part.table, "factor": part.factor, "back": part.table}


def factorized(part: Any) -> Terms:
    """Two matrices multiplied out."""
    back = part.table @ part.up.T
    return {"table": back if part.bias is None else back + part.bias, "factor": part.factor, "back": back}


def pretrained(part: Any) -> Terms:
    """With the way up multiplied out."""
    back = part.table if part.width == part.dims.width else part.table @ part.up.T
    return {"table": back, "factor": 1.0, "back": back}


def language(part: Any) -> Terms:
    """Scores of tokens; without a matrix, that of the embedding."""
    terms = {"weight": getattr(part, "projection", None), "bias": part.bias, "factor": part.factor}
    return terms if part.options.cap is None else {**terms, "cap": part.options.cap}


def sinusoidal(part: Any) -> Terms:
    """A vector for each position, added to tokens; there is no last one, so twice the model's length is shown."""
    from torch import arange

    return {"added": part.waves(arange(max(2 * part.dims.length, 512))).float()}


def rotary(part: Any) -> Terms:
    """Which numbers turn, and how fast."""
    terms = {"turning": part.turning, "pairs": part.options.layout, "base": part.options.base}
    name = part.options.scaling.use
    return terms if name == "none" else {**terms, f"{name} scaling": part.options.scaling}


def stack(part: Any) -> Terms:
    """Layers in order; what a stack chose for all of them, where it did."""
    names = ("attention", "cross_attention", "feedforward", "residual")
    layers = [{name: getattr(layer, name) for name in names} for layer in part.layers]
    terms = {"layers": layers, "final_norm": part.final_norm}
    if len(set(part.places)) > 1:
        return {**terms, "layers that differ in masks or positions": part.places}
    mask, position = part.places[0]
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


TERMS: dict[str, Callable[[Any], Terms]] = {
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
    "kit_position.alibi.AlibiPosition": lambda part: {"penalty": part.options.direction},
    "kit_position.learned.LearnedPosition": lambda part: {"added": part.table},
    "kit_position.none.NoPosition": lambda part: {},
    "kit_position.rotary.RotaryPosition": rotary,
    "kit_position.sinusoidal.SinusoidalPosition": sinusoidal,
    "kit_residual.post.PostResidual": residual("post"),
    "kit_residual.pre.PreResidual": residual("pre"),
    "kit_stack.transformer.TransformerStack": stack,
}
"""By the full name of a class, so that no part is mistaken for another of the same name."""

NEVER = (Special.PADDING, Special.START, Special.MASK, Special.SEPARATOR)
"""Tokens that stand in no text."""
