"""What a notebook shows of recipes, models and explanations: everything that matters, and nothing that could run."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from models.tiny_models import KIT

from kit import Kit, Recipe

RECIPE = """
name: shown
description: <script>alert(1)</script> & more
model:
  family: encoder-decoder
  width: 32
  vocabulary: 50
  length: 16
  position: sinusoidal
  norm: {use: rms, epsilon: 1.0e-3}
  encoder: {depth: 3, attention: {use: softmax, heads: 4}, feedforward: relu, residual: pre}
  decoder:
    depth: 1
    attention: {use: softmax, heads: 4, kv_heads: 2}
    cross_attention: {use: softmax, heads: 4}
    feedforward: relu
    residual: pre
    masks: [causal]
"""


class Reader(HTMLParser):
    """What a browser would make of it: the text, the elements, and whether every element is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.names: set[str] = set()
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.open.append(tag)
        assert not [name for name, _ in attrs if name.startswith("on")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        assert not self.open
        return " ".join(self.words)


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    return KIT.recipe(RECIPE)


def test_a_recipe_shows_what_it_says_and_not_its_defaults(recipe: Recipe) -> None:
    read = Reader(recipe._repr_html_())
    for word in ("shown", "encoder-decoder", "softmax", "kv_heads", "rms", "0.001", "causal", "sinusoidal"):
        assert word in read.text, word
    for word in ("dropout", "kept_heads", "training", "tie"):
        assert word not in read.text, word


def test_a_model_shows_its_parts_and_their_sizes(recipe: Recipe) -> None:
    model = KIT.build(recipe)
    read = Reader(model._repr_html_())
    total = sum(parameter.numel() for parameter in model.parameters())
    for word in ("EncoderDecoder", f"{total:,} parameters", "cross_attention", "layer 0–2", "table 50 × 32"):
        assert word in read.text, word


def test_an_explanation_shows_the_tree_and_the_costs(recipe: Recipe) -> None:
    read = Reader(KIT.explain(recipe)._repr_html_())
    for word in ("shown", "cross_attention", "FLOPs per token (forward, 16 tokens)", "KV cache per generated token"):
        assert word in read.text, word
    open_vocabulary = KIT.recipe(RECIPE.replace("  vocabulary: 50\n", ""))
    assert "the tokenizer decides the vocabulary" in Reader(KIT.explain(open_vocabulary)._repr_html_()).text


def test_nothing_in_them_can_run(recipe: Recipe) -> None:
    read = Reader(recipe._repr_html_())
    assert "<script>alert(1)</script> & more" in read.text
    harmless = {"div", "b", "i", "p", "small", "table", "tr", "th", "td", "details", "summary"}
    for html in (recipe._repr_html_(), KIT.build(recipe)._repr_html_(), KIT.explain(recipe)._repr_html_()):
        assert Reader(html).names <= harmless


def test_names_of_modules_are_escaped_too(recipe: Recipe) -> None:
    from torch import nn

    model = Kit().build(recipe)
    model.add_module("<img src=x onerror=alert(1)>", nn.Linear(1, 1))
    assert "img" not in Reader(model._repr_html_()).names


def test_a_long_value_is_cut() -> None:
    told = KIT.recipe(RECIPE.replace("& more", "x" * 5000))._repr_html_()
    assert len(told) < 5000
