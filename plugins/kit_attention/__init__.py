"""Attention variants, one file each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit import hookimpl

if TYPE_CHECKING:
    from kit import Component

kit_api = 1


@hookimpl
def kit_components() -> list[type[Component]]:
    """The parts of this plugin, imported on first use."""
    from kit_attention.additive import AdditiveAttention
    from kit_attention.block_sparse import BlockSparseAttention
    from kit_attention.cosine import CosineAttention
    from kit_attention.differential import DifferentialAttention
    from kit_attention.disentangled import DisentangledAttention
    from kit_attention.fourier import FourierAttention
    from kit_attention.gated import GatedAttention
    from kit_attention.global_window import GlobalWindowAttention
    from kit_attention.latent import LatentAttention
    from kit_attention.linear import LinearAttention
    from kit_attention.linformer import LinformerAttention
    from kit_attention.nystrom import NystromAttention
    from kit_attention.performer import PerformerAttention
    from kit_attention.relative import RelativeAttention
    from kit_attention.retention import RetentionAttention
    from kit_attention.sigmoid import SigmoidAttention
    from kit_attention.sink import SinkAttention
    from kit_attention.softmax import SoftmaxAttention
    from kit_attention.talking_heads import TalkingHeadsAttention
    from kit_attention.topk import TopkAttention
    from kit_attention.window import WindowAttention

    return [
        AdditiveAttention,
        BlockSparseAttention,
        CosineAttention,
        DifferentialAttention,
        DisentangledAttention,
        FourierAttention,
        GatedAttention,
        GlobalWindowAttention,
        LatentAttention,
        LinearAttention,
        LinformerAttention,
        NystromAttention,
        PerformerAttention,
        RelativeAttention,
        RetentionAttention,
        SigmoidAttention,
        SinkAttention,
        SoftmaxAttention,
        TalkingHeadsAttention,
        TopkAttention,
        WindowAttention,
    ]
