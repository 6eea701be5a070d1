"""Attention observers: see attention weights and values while a model runs, and may replace the outputs of heads.

Shapes: B rows, H heads, G key-value heads, Q queries, K keys, E and F head_dim of keys and values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from kit.plugin.component import BuildContext
    from kit.sequence.attention_context import AttentionContext


class AttentionObserver:
    """Override what you want to see; an attention takes its unfused path while it is observed."""

    def weights(self, build_context: BuildContext, weights_BHQK: Tensor, context: AttentionContext) -> None:
        """Receives attention weights."""

    def without_weights(self, build_context: BuildContext, reason: str) -> None:
        """Reports an attention that has no weights to show, and why."""

    def values(self, build_context: BuildContext, v_BGKF: Tensor, context: AttentionContext) -> None:
        """Receives the values of each key-value head; not every attention has values to show."""

    def heads(self, build_context: BuildContext, out_BHQF: Tensor) -> Tensor:
        """Receives the outputs of heads before the output projection; returns them, or a replacement."""
        return out_BHQF


class AttentionRecorder(AttentionObserver):
    """Records the weights of every attention by its name, such as `decoder.0.cross_attention`."""

    def __init__(self) -> None:
        self.by_site: dict[str, Tensor] = {}
        self.unseen: dict[str, str] = {}

    def weights(self, build_context: BuildContext, weights_BHQK: Tensor, context: AttentionContext) -> None:
        """Records weights, detached."""
        self.by_site[build_context.name] = weights_BHQK.detach()

    def without_weights(self, build_context: BuildContext, reason: str) -> None:
        """Records the reason."""
        self.unseen[build_context.name] = reason
