"""What a local attention remembers: the last few real keys and values of each row, however long the text grows.

Shapes: B rows, G groups, M remembered keys, K keys in reach (remembered and new), Q queries, H heads, E and F widths.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kit import Layout, TensorState


class RollingState(TensorState):
    """Keys, values and their index in the whole text; -1 where a row has fewer."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def extend(self, k_BGQE: Tensor, v_BGQF: Tensor, keys: Layout) -> tuple[Tensor, Tensor, Layout]:
        """Takes new keys and values; gives all that are in reach, with their layout, and keeps the last real ones."""
        rows, new = k_BGQE.shape[0], k_BGQE.shape[2]
        index_BK = torch.arange(keys.length - new, keys.length, device=keys.device).expand(rows, new)
        if keys.valid is not None:
            index_BK = index_BK.where(keys.valid[:, -new:], -1)
        if self.values:
            k_BGQE = torch.cat([self.values["key"], k_BGQE], 2)
            v_BGQF = torch.cat([self.values["value"], v_BGQF], 2)
            index_BK = torch.cat([self.values["index"], index_BK], 1)
        self._keep(k_BGQE, v_BGQF, index_BK, keys.valid is None)
        self.index_BK = index_BK
        return k_BGQE, v_BGQF, self._layout(index_BK, keys)

    def spread(self, weights_BHQK: Tensor, keys: Layout) -> Tensor:
        """Weights of the keys in reach, laid out over the whole text with zeros elsewhere."""
        real_BK = self.index_BK >= 0
        index = self.index_BK.clamp(min=0)[:, None, None, :].expand_as(weights_BHQK)
        whole = weights_BHQK.new_zeros(*weights_BHQK.shape[:3], keys.length)
        return whole.scatter_add(3, index, weights_BHQK * real_BK[:, None, None, :])

    def _keep(self, k_BGKE: Tensor, v_BGKF: Tensor, index_BK: Tensor, all_real: bool) -> None:
        if not all_real:
            # Those that are not real go first, where they fall out.
            order_BK = (index_BK >= 0).to(torch.uint8).argsort(dim=1, stable=True)
            index_BK = index_BK.gather(1, order_BK)
            order = order_BK[:, None, :, None]
            k_BGKE = k_BGKE.gather(2, order.expand_as(k_BGKE))
            v_BGKF = v_BGKF.gather(2, order.expand_as(v_BGKF))
        first = max(0, index_BK.shape[1] - self.size)
        # Copies, so that what fell out is given back to the machine.
        self.values = {
            "key": k_BGKE[:, :, first:].clone(),
            "value": v_BGKF[:, :, first:].clone(),
            "index": index_BK[:, first:].clone(),
        }

    @staticmethod
    def _layout(index_BK: Tensor, keys: Layout) -> Layout:
        chosen_BK = index_BK.clamp(min=0)
        shape = (index_BK.shape[0], index_BK.shape[1])
        facts = {name: fact.gather(1, chosen_BK) for name, fact in keys.facts.items()}
        valid = None if keys.valid is None else index_BK >= 0
        layout = Layout(shape, keys.device, valid, False, 0, facts)
        layout.order = keys.order.expand(shape[0], keys.length).gather(1, chosen_BK)
        return layout
