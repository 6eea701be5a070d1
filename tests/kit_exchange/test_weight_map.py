"""What a weight map does with tensors, and what it says when map, model and weights do not fit together."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from models.tiny_models import build
from torch import Tensor, nn

from kit import KitError
from kit_attention.softmax import SoftmaxOptions
from kit_exchange.weight_map import Rule, Tied, WeightMap, match_name


class Tiny(nn.Module):
    """Two layers and a table."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(5, 2))
        self.layers = nn.ModuleList(nn.Linear(2, 3) for _ in range(2))


def weights() -> dict[str, Tensor]:
    torch.manual_seed(0)
    found = {
        f"h.{layer}.{what}": torch.randn(shape) for layer in (0, 1) for what, shape in (("w", (2, 3)), ("b", (3,)))
    }
    return {**found, "wte": torch.randn(5, 2)}


RULES = [
    Rule(ours="table", theirs="wte"),
    Rule(ours="layers.{layer}.weight", theirs="h.{layer}.w", transpose=True),
    Rule(ours="layers.{layer}.bias", theirs="h.{layer}.b"),
]


def refusal(rules: list[Rule], theirs: dict[str, Tensor], unused: list[str] | None = None) -> str:
    """What is said; the model must be as it was."""
    model = Tiny()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(KitError) as caught:
        WeightMap(weights=rules, unused=unused or []).load(model, theirs)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    return str(caught.value)


def test_every_parameter_is_filled() -> None:
    model, theirs = Tiny(), weights()
    WeightMap(weights=RULES).load(model, theirs)
    assert torch.equal(model.table, theirs["wte"])
    for layer in (0, 1):
        linear = model.get_submodule(f"layers.{layer}")
        assert torch.equal(linear.get_parameter("weight"), theirs[f"h.{layer}.w"].T)
        assert torch.equal(linear.get_parameter("bias"), theirs[f"h.{layer}.b"])


def test_a_missing_rule() -> None:
    said = refusal(RULES[:2], weights(), unused=["h.{layer}.b"])
    assert said.splitlines() == [f"no rule of the map says where layers.{layer}.bias comes from" for layer in (0, 1)]


def test_a_missing_tensor() -> None:
    theirs = weights()
    del theirs["h.1.w"]
    assert refusal(RULES, theirs) == "layers.1.weight comes from h.1.w, which is not among the weights given"


def test_a_wrong_shape() -> None:
    said = refusal(RULES, {**weights(), "wte": torch.zeros(6, 2)})
    assert said == "table is (5, 2) here, and (6, 2) comes in from wte; the recipe's sizes do not fit these weights"


def test_left_over_tensors() -> None:
    extra = {f"extra.{number}": torch.zeros(1) for number in range(7)}
    said = refusal(RULES, {**weights(), **extra}).splitlines()
    assert said[0] == "extra.0 of theirs is taken by nothing here"
    assert len(said) == 6 and said[-1] == "and 2 more"
    WeightMap(weights=RULES, unused=["extra.{layer}"]).load(Tiny(), {**weights(), **extra})


def tied(ours: str, theirs: str, advice: str = "write tie: none") -> list[Tied]:
    return [Tied(ours=ours, theirs=theirs, otherwise=advice)]


def test_a_tied_tensor_must_equal_what_it_is_tied_to() -> None:
    found = weights()
    with_head = WeightMap(weights=RULES, tied=tied("table", "head"))
    with_head.load(Tiny(), {**found, "head": found["wte"].clone()})
    with_head.load(Tiny(), found)
    for head, by in (
        (found["wte"] + 0.25, "by up to 0.25"),
        (torch.zeros(4, 2), "in shape"),
        (found["wte"] / 0, "by up to"),
    ):
        model = Tiny()
        with pytest.raises(KitError) as caught:
            with_head.load(model, {**found, "head": head})
        assert str(caught.value).startswith(f"head of theirs differs {by}")
        assert str(caught.value).endswith(" from table, which it is tied to here; write tie: none")
        assert not model.table.any()


def test_a_tied_tensor_that_a_rule_takes_is_not_compared() -> None:
    first = Rule(ours="layers.1.bias", theirs="last")
    model, found = Tiny(), {**weights(), "last": torch.full((3,), 7.0)}
    del found["h.1.b"]
    WeightMap(weights=[first, *RULES], tied=tied("layers.0.bias", "last")).load(model, found)
    assert torch.equal(model.get_parameter("layers.1.bias"), found["last"])


def test_a_tensor_tied_to_a_second_name_of_a_parameter() -> None:
    model, found = Tiny(), weights()
    model.same = model.table
    WeightMap(weights=RULES, tied=tied("same", "head")).load(model, {**found, "head": found["wte"]})
    with pytest.raises(KitError, match="head of theirs differs by up to 1 from same"):
        WeightMap(weights=RULES, tied=tied("same", "head")).load(model, {**found, "head": found["wte"] + 1})


def test_a_tensor_that_has_to_be_zero() -> None:
    zero = WeightMap(weights=RULES, tied=tied("zero", "extra", "write bias: true"))
    zero.load(Tiny(), {**weights(), "extra": torch.zeros(1, 3)})
    with pytest.raises(KitError, match=r"extra of theirs differs by up to 0\.5 from zero.*; write bias: true"):
        zero.load(Tiny(), {**weights(), "extra": torch.tensor([0.0, -0.5])})


def test_placeholders_match_words_and_numbers() -> None:
    assert match_name("moe.{expert}.{what}", "moe.11.w2") == {"expert": "11", "what": "w2"}
    assert match_name("h.{layer}.{Kind}", "h.3.Norm_1") == {"layer": "3", "Kind": "Norm_1"}
    assert match_name("h.{layer}.w", "h.first.w") is None and match_name("{a}.w", "b.c.w") is None


def test_experts_are_loaded_by_number() -> None:
    model = nn.ModuleDict({"experts": nn.ModuleList(nn.Linear(2, 3) for _ in range(12))})
    found = {f"moe.{each}.{what}": torch.randn(size) for each in range(12) for what, size in (("w", (3, 2)), ("b", 3))}
    rules = [
        Rule(ours="experts.{expert}.weight", theirs="moe.{expert}.w"),
        Rule(ours="experts.{expert}.bias", theirs="moe.{expert}.b"),
    ]
    WeightMap(weights=rules).load(model, found)
    assert torch.equal(model.get_parameter("experts.11.weight"), found["moe.11.w"])
    assert torch.equal(model.get_parameter("experts.0.bias"), found["moe.0.b"])


def test_everything_is_said_at_once() -> None:
    theirs = {**weights(), "wte": torch.zeros(1, 2), "extra": torch.zeros(1)}
    del theirs["h.0.b"]
    said = refusal(RULES, theirs)
    assert [line.split()[0] for line in said.splitlines()] == ["table", "layers.0.bias", "extra"]


def test_tensors_that_do_not_join() -> None:
    rules = [Rule(ours="table", theirs=["wte", "h.0.w"]), *RULES[1:]]
    assert refusal(rules, weights()) == "table is made of tensors of shapes that do not join: (5, 2) and (2, 3)"


def test_the_first_rule_that_fits_is_used() -> None:
    model, theirs = Tiny(), {**weights(), "last": torch.full((3,), 7.0)}
    special = Rule(ours="layers.1.bias", theirs="last")
    WeightMap(weights=[special, *RULES], unused=["h.1.b"]).load(model, theirs)
    assert torch.equal(model.get_parameter("layers.1.bias"), theirs["last"])
    assert torch.equal(model.get_parameter("layers.0.bias"), theirs["h.0.b"])


def test_rows_are_joined_cut_and_flattened() -> None:
    first, second = torch.randn(1, 4, 2), torch.randn(1, 3, 2)
    value = Rule(ours="a", theirs=["b", "c"], flatten=True, skip=2).convert("a", [first, second], 1)
    assert torch.equal(value, torch.cat([first[0], second[0]])[2:])


def test_heads_are_put_in_order() -> None:
    """Rows numbered head, kind, place; ours has all queries, then all keys, then all values."""
    rows = [(head, kind, place) for head in range(4) for kind in range(3) for place in range(8)]
    fused = torch.tensor(rows, dtype=torch.float64)
    rule = Rule(ours="{what}", theirs="{what}", by_head=True)
    wanted = sorted(rows, key=lambda row: (row[1], row[0], row[2]))
    assert rule.convert("qkv", [fused], 4).tolist() == [list(row) for row in wanted]
    with pytest.raises(KitError, match="qkv has 5 heads here, and 96 rows cannot be shared out among them"):
        rule.convert("qkv", [fused], 5)


def test_heads_are_those_of_the_attention() -> None:
    model = build("decoder", {"depth": 1, "attention": SoftmaxOptions(heads=4)})
    theirs = {name: torch.randn_like(parameter) for name, parameter in model.named_parameters()}
    name = "decoder.stack.layers.0.attention.query_key_value.weight"
    rules = [Rule(ours=name, theirs=name, by_head=True), *(Rule(ours=each, theirs=each) for each in theirs)]
    WeightMap(weights=rules).load(model, theirs)
    by_head = theirs[name].view(4, 3, 8, 32)
    assert torch.equal(model.get_parameter(name).view(3, 4, 8, 32), by_head.transpose(0, 1))


def test_reading_with_what_is_extended(tmp_path: Path) -> None:
    base = "tied: [{ours: a, theirs: t, otherwise: x}]\nunused: [x]\n"
    (tmp_path / "base.yaml").write_text("weights: [{ours: a, theirs: b}, {ours: c, theirs: d}]\n" + base)
    over = "tied: [{ours: a, theirs: s, otherwise: x}]\nunused: [y]\n"
    (tmp_path / "over.yaml").write_text("extends: base.yaml\nweights: [{ours: a, theirs: z}]\n" + over)
    found = WeightMap.read(tmp_path / "over.yaml")
    assert [(rule.ours, rule.theirs) for rule in found.weights] == [("a", "z"), ("a", "b"), ("c", "d")]
    assert [rule.theirs for rule in found.tied] == ["s", "t"]
    assert found.unused == ["y", "x"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read: No such file"),
        ("weights: [", "is no YAML"),
        ("weights: [{ours: a}]", r"weights\.0\.theirs: Field required"),
        ("weights: [{ours: a, theirs: b, transposed: true}]", r"weights\.0\.transposed: Extra inputs"),
        ('weights: [{ours: "a.{layer}", theirs: "b.{side}"}]', r"{side} stands in theirs and not in ours, a\.{layer}"),
        ("extends: map.yaml", "more than 8 weight maps extend each other"),
        ("- ours", "map.yaml: the file"),
    ],
    ids=["missing", "broken", "incomplete", "unknown", "placeholder", "circle", "list"],
)
def test_files_that_are_wrong(tmp_path: Path, text: str | None, said: str) -> None:
    path = tmp_path / "map.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(KitError, match=said):
        WeightMap.read(path)
