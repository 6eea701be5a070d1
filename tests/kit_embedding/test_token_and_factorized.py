"""Tables of token vectors: plain, and in two factors."""

from __future__ import annotations

import pytest
import torch
from models.model_checks import check_decoder
from models.tiny_models import build, section

from kit import BuildContext, Dims
from kit_embedding.factorized import FactorizedEmbedding, FactorizedOptions
from kit_embedding.token import TokenEmbedding, TokenOptions

IDS = torch.tensor([[3, 0, 7], [7, 7, 1]])


def build_context() -> BuildContext:
    from models.tiny_models import KIT

    from kit.model.builder import ModelBuilder

    return BuildContext(ModelBuilder(KIT.registry))


@pytest.mark.parametrize("scale", [False, True])
def test_a_table_gives_its_rows_and_scores_are_dot_products_with_them(scale: bool) -> None:
    part = TokenEmbedding(TokenOptions(scale=scale), Dims(4, vocabulary=9), build_context())
    for row in range(2):
        for place in range(3):
            wanted = part.table[IDS[row, place]] * (2.0 if scale else 1.0)
            assert torch.equal(part(IDS)[row, place], wanted)
    x = torch.randn(4)
    assert torch.allclose(part.project(x), torch.stack([x @ part.table[token] for token in range(9)]))


def test_new_tables_give_vectors_of_length_one_on_average() -> None:
    for options in (TokenOptions(), FactorizedOptions(rank=16)):
        torch.manual_seed(0)
        part = build_context().build(options, Dims(64, vocabulary=2000))
        assert part(torch.arange(2000)).detach().square().sum(-1).mean() == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize("bias", [False, True])
def test_two_factors_by_the_formula(bias: bool) -> None:
    part = FactorizedEmbedding(FactorizedOptions(rank=3, bias=bias), Dims(8, vocabulary=9), build_context()).double()
    if bias:
        torch.nn.init.normal_(part.bias)
    shift = part.bias if bias else 0.0
    vectors = torch.stack([part.up @ part.table[token] for token in range(9)])
    assert torch.allclose(part(torch.arange(9)), vectors + shift)
    x = torch.randn(2, 8, dtype=torch.float64)
    assert torch.allclose(part.project(x), x @ vectors.T)
    # The bias shifts every score alike, so the choice of a token is that of a full dot product.
    assert torch.allclose(part.project(x).softmax(-1), (x @ part(torch.arange(9)).T).softmax(-1))


def test_two_factors_count_fewer_parameters() -> None:
    part = build_context().build(FactorizedOptions(rank=3), Dims(8, vocabulary=1000))
    assert sum(parameter.numel() for parameter in part.parameters()) == 3 * 1000 + 3 * 8 + 8


def test_whole_models() -> None:
    check_decoder(build(embedding=FactorizedOptions(rank=6)))
    check_decoder(build("decoder", embedding=FactorizedOptions(rank=6), tie="none"))
    assert section(embedding=FactorizedOptions()).embedding == FactorizedOptions(rank=128)
