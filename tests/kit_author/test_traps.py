"""What peers' users complained of, where plugins are concerned: each trap, and that nobody falls into it here.

The traps are those of the project's list of facts; others of that list are tested where they belong: denormals, dropout
and data order in tests/training, YAML in tests/recipe, checkpoints in tests/checkpoints.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import pytest
import torch
from torch import Tensor

from kit import (
    AttentionContext,
    Capabilities,
    Kit,
    Mask,
    MaskFeatures,
    MultiHeadAttention,
    MultiHeadOptions,
    Options,
    RecipeError,
    hookimpl,
)
from kit.laws import LAWS, try_law

ROOT = Path(__file__).parents[2]
KIT = Kit()


class MineOptions(MultiHeadOptions):
    use: Literal["mine"] = "mine"


class MineAttention(MultiHeadAttention):
    """An attention of one's own, with a mask that only it is told of by the scope."""

    options_type = MineOptions

    def attention_weights(self, q_BHQE: Tensor, k_BGKE: Tensor, context: AttentionContext) -> Tensor:
        return context.masked_softmax(context.scores(q_BHQE, k_BGKE, self.scale))


class OddOptions(Options):
    use: Literal["odd"] = "odd"


class OddMask(Mask):
    """Hides every second token that came before."""

    options_type = OddOptions
    hides_future = True

    def allows(self, q: Tensor, k: Tensor, features: MaskFeatures) -> Tensor:
        return (k <= q) & ((q - k) % 2 == 0)


def plugin(*parts: type) -> ModuleType:
    module = ModuleType("kit_mine")
    module.kit_api = 1  # type: ignore[attr-defined]
    module.kit_components = hookimpl(lambda: list(parts))  # type: ignore[attr-defined]
    return module


def recipe(kit: Kit, attention: Any = "mine", masks: Any = ("odd",)) -> Any:
    decoder = {"depth": 1, "attention": attention, "feedforward": "relu", "residual": "pre", "masks": list(masks)}
    model = {"family": "decoder", "width": 16, "vocabulary": 11, "norm": "layer", "decoder": decoder}
    return kit.recipe({"name": "traps", "model": model})


def test_a_registered_attention_is_given_the_masks_of_the_recipe() -> None:
    """transformers#45811, #46132, #48748: masks were built for known attentions only; others lost them."""
    kit = Kit(plugins=[plugin(MineAttention, OddMask)])
    torch.manual_seed(0)
    model = kit.build(recipe(kit)).eval()
    ids = torch.tensor([[1, 2, 3, 4, 5, 6]])
    changed = torch.tensor([[9, 2, 3, 4, 5, 6]])
    moved = (model(target=ids) - model(target=changed)).abs().amax(-1)[0] > 0
    assert moved.tolist() == [True, False, True, False, True, False]


def test_an_attention_that_cannot_honour_a_mask_is_refused_with_both_names() -> None:
    """The same trap from the other side: a mask is never dropped in silence."""

    class Narrow(MineAttention):
        capabilities = Capabilities(masks=frozenset({"causal"}))

    kit = Kit(plugins=[plugin(Narrow, OddMask)])
    with pytest.raises(RecipeError) as caught:
        recipe(kit)
    assert "mine" in str(caught.value) and "odd" in str(caught.value)
    assert recipe(kit, masks=["causal"]).name == "traps"


def test_a_query_that_sees_nothing_gives_zeros_and_finite_gradients() -> None:
    """pytorch#103749, #109517, #160064: rows that are masked throughout gave NaN."""
    assert try_law(LAWS["attention.fully_masked_queries"], MineAttention, KIT, quick=True).outcome == "passed"

    class Naive(MineAttention):
        def attention_weights(self, q_BHQE: Tensor, k_BGKE: Tensor, context: AttentionContext) -> Tensor:
            scores = context.scores(q_BHQE, k_BGKE, self.scale)
            hidden = (
                torch.zeros_like(scores)
                if context.attention_mask is None
                else (~context.attention_mask).to(scores.dtype)
            )
            return (scores.masked_fill(hidden.bool(), float("-inf"))).softmax(-1)

    verdict = try_law(LAWS["attention.fully_masked_queries"], Naive, KIT, quick=True)
    assert verdict.outcome == "failed"


def test_a_cache_that_is_not_reordered_is_found() -> None:
    """transformers#46612: a beam search that forgets to reorder a cache is silent."""
    assert try_law(LAWS["attention.cache_reorder"], MineAttention, KIT, quick=True).outcome == "passed"
    assert any(title.endswith(".cache_reorder") and law.kind == "stack" for title, law in LAWS.items())
    assert "search.batch_invariance" in LAWS, "and the search itself is asked: rows are never mixed up"


def test_a_causal_mask_over_a_cache_is_aligned_to_the_end() -> None:
    """`is_causal` of torch aligns to the top left, and decoding with a cache needs the bottom right."""
    kit = Kit(plugins=[plugin(MineAttention, OddMask)])
    torch.manual_seed(0)
    model: Any = kit.build(recipe(kit, masks=["causal"])).eval()
    ids = torch.tensor([[1, 2, 3, 4, 5, 6]])
    with torch.no_grad():
        whole = model(target=ids)
        session = model.start()
        pieces = torch.cat([session.step(ids[:, :4]), session.step(ids[:, 4:])], 1)
    assert torch.allclose(pieces, whole, atol=1e-5)


def points(folder: Path, *named: tuple[str, str]) -> list[EntryPoint]:
    for module in {module for _, module in named}:
        (folder / f"{module}.py").write_text(
            "from typing import Literal\nfrom kit import Mask, Options, hookimpl\nkit_api = 1\n"
            f"class O(Options):\n    use: Literal['{module.replace('_', '-')}'] = '{module.replace('_', '-')}'\n"
            "class M(Mask):\n    options_type = O\n    def allows(self, q, k, facts):\n        return k <= q\n"
            "@hookimpl\ndef kit_components():\n    return [M]\n"
        )
    return [EntryPoint(name, module, "kit.plugins") for name, module in named]


def test_a_second_entry_point_of_one_name_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pluggy's own loader skips it in silence."""
    monkeypatch.syspath_prepend(str(tmp_path))
    kit = Kit(entry_points=points(tmp_path, ("masks", "first_masks"), ("masks", "second_masks")))
    assert kit.registry.names("mask") == ["first-masks", "second-masks"]


def test_the_last_one_installed_does_not_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """llm-foundry: two plugins with one name, and whichever came last was taken."""
    monkeypatch.syspath_prepend(str(tmp_path))
    both = points(tmp_path, ("a", "masks_a"), ("b", "masks_b"))
    for module in ("masks_a", "masks_b"):
        file = tmp_path / f"{module}.py"
        file.write_text(file.read_text().replace(module.replace("_", "-"), "same"))
    kit = Kit(entry_points=both)
    with pytest.raises(Exception, match=r"2 distributions bring a mask called 'same': masks_a and masks_b"):
        kit.registry.find("mask", "same")
    assert kit.registry.find("mask", "masks_b/same").distribution == "masks_b"


def test_what_a_recipe_accepts_is_what_is_registered() -> None:
    """llm-foundry again: a registry beside a list of valid names, so that a plugin could not be selected."""
    kit = Kit(plugins=[plugin(MineAttention, OddMask)])
    from kit.recipe.json_schema import json_schema

    assert '"mine"' not in str(json_schema(KIT.registry)).replace("'", '"')
    assert '"mine"' in str(json_schema(kit.registry)).replace("'", '"')
    assert recipe(kit).model.decoder.attention.use == "mine"


@pytest.mark.parametrize("fault", ["import nowhere_at_all", "import sys; sys.exit(1)", "raise RuntimeError('no')"])
def test_one_bad_import_does_not_end_the_others(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With bare pluggy one bad import, or `sys.exit` in one, aborts all."""
    monkeypatch.syspath_prepend(str(tmp_path))
    good = points(tmp_path, ("good", "good_masks"))
    (tmp_path / "bad_masks.py").write_text(fault)
    kit = Kit(entry_points=[EntryPoint("bad", "bad_masks", "kit.plugins"), *good])
    assert kit.registry.names("mask") == ["good-masks"]
    assert [plugin.status for plugin in kit.plugins] == ["failed", "loaded"]
    sys.modules.pop("bad_masks", None)


def test_the_exit_codes_are_those_of_pytest(tmp_path: Path) -> None:
    """4 for what is not there, 3 for what is broken."""
    (tmp_path / "bad_masks.py").write_text("import nowhere_at_all")
    info = tmp_path / "kit_bad-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kit-bad\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[kit.plugins]\nbad = bad_masks\n")
    code = (
        "import sys\nfrom kit import Kit, KitError\ncodes = []\nfor name in ('nothing', 'kit-bad/nothing'):\n"
        "    try:\n        Kit(only=['kit-bad']).registry.find('mask', name)\n"
        "    except KitError as error:\n        codes.append(error.exit_code)\nprint(codes)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[4, 3]"


def test_an_installed_tree_has_no_package_called_plugins() -> None:
    """hatchling: each plugin package is at the top level, and `plugins` itself is no package."""
    assert not (ROOT / "plugins" / "__init__.py").exists()
    assert importlib.util.find_spec("kit_mask") is not None
