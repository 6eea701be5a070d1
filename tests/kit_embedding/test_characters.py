"""Word vectors made from letters, against a loop over letters, words and filters."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from models.model_checks import check_decoder
from models.tiny_models import KIT, build, random_tokens, section

from kit import BuildContext, Dims, RecipeError
from kit.model.builder import ModelBuilder
from kit_embedding.characters import CharactersOptions, spell

SYMBOLS = ("<padding>", "cat", "cats", "café", "日本", "", "extraordinarily")
SMALL = CharactersOptions(letter_width=4, spans=[1, 3], filters=2, longest=8)


def embedding(options: Any = SMALL, symbols: tuple[str, ...] | None = SYMBOLS) -> Any:
    torch.manual_seed(0)
    return (
        BuildContext(ModelBuilder(KIT.registry))
        .build(options, Dims(6, vocabulary=len(SYMBOLS), symbols=symbols))
        .double()
    )


def test_the_formula() -> None:
    part = embedding()
    for number, word in enumerate(SYMBOLS):
        letters = [1, *(byte + 3 for byte in word.encode()[:8]), 2]
        letters += [0] * (10 - len(letters))
        x = torch.stack([part.letter[letter] for letter in letters])
        peaks = []
        for filters in part.filters:
            span = filters.kernel_size[0]
            for one in range(filters.out_channels):
                answers = [
                    torch.tanh((x[start : start + span] * filters.weight[one].T).sum() + filters.bias[one])
                    for start in range(10 - span + 1)
                ]
                peaks.append(max(answers))
        y = torch.stack(peaks)
        (highway,) = part.highway
        gate = torch.sigmoid(highway.gate(y))
        y = gate * torch.relu(highway.change(y)) + (1 - gate) * y
        assert (part(torch.tensor(number)) - part.up(y)).abs().max() < 1e-12


def test_scores_are_dot_products_with_all_words() -> None:
    part = embedding()
    x = torch.randn(2, 3, 6, dtype=torch.float64)
    assert torch.allclose(part.project(x), x @ part(torch.arange(7)).T)


def test_kept_words_are_made_anew_when_weights_change() -> None:
    part = embedding()
    x = torch.randn(6, dtype=torch.float64)
    with torch.no_grad():
        before = part.project(x)
        assert torch.equal(part.project(x), before)
        part.up.bias += 1.0
        changed = part.project(x)
        assert torch.allclose(changed, before + x.sum())
        other = embedding()
        part.load_state_dict(other.state_dict())
        assert torch.equal(part.project(x), other.project(x))
    assert torch.allclose(part.project(x), before)
    assert part.float()(torch.tensor([1])).dtype == torch.float32
    with torch.no_grad():
        assert part.project(x.float()).dtype == torch.float32


def test_alike_words_and_long_words() -> None:
    rows = spell(("extraordinarily", "extraord", "extraore"), 3, 8)
    assert torch.equal(rows[0], rows[1])
    assert not torch.equal(rows[1], rows[2])


def test_spelling_survives_saving_and_counts_do_not_depend_on_words() -> None:
    known, unknown = embedding(), embedding(symbols=None)
    count = sum(parameter.numel() for parameter in known.parameters())
    assert count == sum(parameter.numel() for parameter in unknown.parameters())
    assert count == 259 * 4 + (4 * 1 * 2 + 2) + (4 * 3 * 6 + 6) + 2 * (8 * 8 + 8) + 8 * 6 + 6
    unknown.load_state_dict(known.state_dict())
    assert torch.equal(unknown(torch.arange(7)), known(torch.arange(7)))
    different = embedding(symbols=None)(torch.arange(7))
    assert len({tuple(vector) for vector in different.tolist()}) == 7


def test_padding_letters_learn_nothing() -> None:
    part = embedding()
    part(torch.arange(7)).square().sum().backward()
    assert part.letter[0].abs().max() == 0 and part.letter.grad[0].abs().max() == 0
    assert part.letter.grad[1].abs().max() > 0


def test_on_the_meta_device() -> None:
    with torch.device("meta"):
        part = embedding()
        assert part(torch.zeros(2, 3, dtype=torch.long)).shape == (2, 3, 6)


def test_a_span_longer_than_any_word() -> None:
    options = CharactersOptions(spans=[2, 9], longest=5)
    with pytest.raises(RecipeError) as caught:
        ModelBuilder(KIT.registry).model(section(embedding=options))
    assert [str(problem) for problem in caught.value.problems] == [
        "recipe: model.embedding.spans[1]: a filter looks at 9 letters, and the longest word has 5 and two marks\n"
        "    write longest: 7, or a shorter span"
    ]


@pytest.mark.parametrize("tie", ["output", "none", "all"])
def test_whole_models(tie: Any) -> None:
    model = build(embedding=SMALL, tie=tie)
    check_decoder(model, regroups=True)
    assert model(random_tokens(3), random_tokens(4)).shape == (1, 4, 50)
