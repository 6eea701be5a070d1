"""Which parameters decay, and which are matrices."""

from __future__ import annotations

import torch
from torch import nn

from kit import parameter_groups, torch_groups


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 4)
        self.layer = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)
        self.experts = nn.Parameter(torch.randn(2, 4, 4))
        self.bias_table = nn.Sequential(nn.Linear(4, 4, bias=False))
        self.bias_table.no_decay = True  # type: ignore[assignment]
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        self.out = nn.Linear(4, 7, bias=False)
        self.out.kind = "head"  # type: ignore[assignment]


def names(model: nn.Module, **options: bool) -> dict[tuple[bool, bool], list[str]]:
    return {(group.matrix, group.decay): group.names for group in parameter_groups(model, **options)}


def test_matrices_decay_and_biases_norms_and_those_that_opt_out_do_not() -> None:
    assert names(Small()) == {
        (True, True): ["layer.weight"],
        (True, False): ["bias_table.0.weight"],
        (False, True): ["experts", "embedding.weight", "out.weight"],
        (False, False): ["layer.bias", "norm.weight", "norm.bias"],
    }


def test_tables_of_tokens_decay_only_if_wanted() -> None:
    assert "embedding.weight" in names(Small(), decay_embeddings=False)[False, False]


def test_a_tied_table_is_one_parameter_and_stays_a_table() -> None:
    model = Small()
    model.out.weight = model.embedding.weight
    model.layer.weight = nn.Parameter(torch.randn(4, 4))
    found = [name for group in parameter_groups(model) for name in group.names]
    assert "out.weight" not in found and len(found) == len(set(found))
    assert names(model)[False, True] == ["experts", "embedding.weight"]


def test_every_trained_parameter_is_in_one_group_and_groups_carry_their_decay() -> None:
    model = Small()
    groups = parameter_groups(model)
    held = [id(parameter) for group in groups for parameter in group.parameters]
    assert sorted(held) == sorted(id(parameter) for parameter in model.parameters() if parameter.requires_grad)
    assert [group["weight_decay"] for group in torch_groups(groups, 0.1)] == [0.1, 0.0, 0.1, 0.0]
