"""Where the norm sits decides the gradients of the last layer before training (Xiong et al. 2020, figure 3).

The paper measures the gradient of the last feed-forward matrix for depths 2 to 18 and finds 0.56 to 0.75 with the norm
after the skip, and 0.48 down to 0.21 with the norm before it. Sizes here are smaller, so ordering and trend are what is
compared: post-norm does not fall with depth, pre-norm falls about as 1/sqrt(depth), and post-norm lies above.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from models.tiny_models import KIT, section

from kit import Options
from kit.model.builder import ModelBuilder
from kit_feedforward.relu import ReluOptions
from kit_residual.post import PostOptions
from kit_residual.pre import PreOptions

DEPTHS = (2, 6, 18)


def last_gradient(residual: Options, depth: int) -> float:
    """The norm of the gradient of the last feed-forward matrix, averaged over a few beginnings."""
    norms = []
    for seed in range(3):
        torch.manual_seed(seed)
        layer = {"residual": residual, "depth": depth, "feedforward": ReluOptions(ffn_multiplier=4)}
        # The output is not tied to the table, so that scores begin alike for every depth.
        model = ModelBuilder(KIT.registry).model(section("encoder", layer, width=64, vocabulary=200, tie="none"))
        ids = torch.randint(0, 200, (16, 20))
        F.cross_entropy(model(ids).flatten(0, 1), ids.roll(1, 1).flatten()).backward()
        gradient = model.encoder.stack.layers[-1].feedforward.down.weight.grad
        norms.append(float(gradient.norm()))
    return sum(norms) / len(norms)


def test_gradients_of_the_last_layer() -> None:
    post = [last_gradient(PostOptions(), depth) for depth in DEPTHS]
    pre = [last_gradient(PreOptions(), depth) for depth in DEPTHS]
    assert post[-1] > 0.9 * post[0]
    assert pre[0] > pre[1] > pre[2]
    assert all(above > below for above, below in zip(post, pre, strict=True))
    # By theory pre-norm falls as 1/sqrt(depth): a third from depth 2 to 18.
    expected = math.sqrt(DEPTHS[0] / DEPTHS[-1])
    assert 0.6 * expected < pre[-1] / pre[0] < 1.6 * expected


if __name__ == "__main__":
    for name, residual in (("post", PostOptions()), ("pre", PreOptions())):
        print(name, [round(last_gradient(residual, depth), 4) for depth in (2, 4, 6, 8, 10, 12, 14, 16, 18)])
