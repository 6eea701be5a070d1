"""A model can be copied, as averaging, ensembles and comparisons do."""

from __future__ import annotations

import copy
import sys

import torch

from kit import Kit

RECIPE = """
name: copied
model:
  family: decoder
  width: 16
  vocabulary: 20
  position: learned
  norm: layer
  decoder: {depth: 2, attention: {use: softmax, heads: 2}, feedforward: relu, residual: pre, masks: [causal]}
"""


class Plugin:
    """Holds a module, which nothing can copy, as plugins that are modules are themselves."""

    kit_api = 1


def test_a_copy_computes_the_same_and_shares_no_weights():
    plugin = Plugin()
    plugin.module = sys
    kit = Kit(plugins=[plugin])
    model = kit.build(kit.recipe(RECIPE)).eval()
    twin = copy.deepcopy(model)
    ids = torch.randint(6, 20, (2, 5))
    assert torch.equal(twin(ids), model(ids))
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert not torch.equal(twin(ids), model(ids))
