"""Rolling KV cache of sliding-window attention: the last real keys and values of each row (Jiang et al. 2023).

Shapes: B batch, G key-value heads, K cached and new keys, Q queries, H query heads, E and F dimensions of keys and
values.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kit import BatchLayout, RecurrentCache


class RollingCache(RecurrentCache):
    """Keys, values and their index in the sequence, -1 where a row has fewer."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def extend(self, k_BGQE: Tensor, v_BGQF: Tensor, keys: BatchLayout) -> tuple[Tensor, Tensor, BatchLayout]:
        """Appends keys and values; returns all in reach with their layout, and keeps the last real ones."""
        rows, new = k_BGQE.shape[0], k_BGQE.shape[2]
        index_BK = torch.arange(keys.length - new, keys.length, device=keys.device).expand(rows, new)
        if keys.padding_mask is not None:
            index_BK = index_BK.where(keys.padding_mask[:, -new:], -1)
        if self.values:
            k_BGQE = torch.cat([self.values["key"], k_BGQE], 2)
            v_BGQF = torch.cat([self.values["value"], v_BGQF], 2)
            index_BK = torch.cat([self.values["index"], index_BK], 1)
        self._keep(k_BGQE, v_BGQF, index_BK, keys.padding_mask is None)
        self.index_BK = index_BK
        return k_BGQE, v_BGQF, self._layout(index_BK, keys)

    def scatter_weights(self, weights_BHQK: Tensor, keys: BatchLayout) -> Tensor:
        """Weights of the keys in reach, scattered over the whole sequence: [B, H, Q, length]."""
        real_BK = self.index_BK >= 0
        index = self.index_BK.clamp(min=0)[:, None, None, :].expand_as(weights_BHQK)
        whole = weights_BHQK.new_zeros(*weights_BHQK.shape[:3], keys.length)
        return whole.scatter_add(3, index, weights_BHQK * real_BK[:, None, None, :])

    def _keep(self, k_BGKE: Tensor, v_BGKF: Tensor, index_BK: Tensor, all_real: bool) -> None:
        if not all_real:
            # Padding goes first, where it falls out.
            order_BK = (index_BK >= 0).to(torch.uint8).argsort(dim=1, stable=True)
            index_BK = index_BK.gather(1, order_BK)
            order = order_BK[:, None, :, None]
            k_BGKE = k_BGKE.gather(2, order.expand_as(k_BGKE))
            v_BGKF = v_BGKF.gather(2, order.expand_as(v_BGKF))
        first = max(0, index_BK.shape[1] - self.size)
        # Copies, so that the memory of dropped keys is freed.
        self.values = {
            "key": k_BGKE[:, :, first:].clone(),
            "value": v_BGKF[:, :, first:].clone(),
            "index": index_BK[:, first:].clone(),
        }

    @staticmethod
    def _layout(index_BK: Tensor, keys: BatchLayout) -> BatchLayout:
        chosen_BK = index_BK.clamp(min=0)
        shape = (index_BK.shape[0], index_BK.shape[1])
        features = {name: feature.gather(1, chosen_BK) for name, feature in keys.features.items()}
        padding_mask = None if keys.padding_mask is None else index_BK >= 0
        layout = BatchLayout(shape, keys.device, padding_mask, False, 0, features)
        layout.token_index = keys.token_index.expand(shape[0], keys.length).gather(1, chosen_BK)
        return layout
