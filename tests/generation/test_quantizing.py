"""Eight bits: a fraction of the memory, nearly the same numbers, and the same tokens wherever a model is sure."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from models.searches import make_search
from models.tiny_models import build, random_tokens

from kit import KitError, Model, Request, TokenBatch, quantize
from kit.generation.quantization import Int8Linear, size_of
from kit_head.language import LanguageOptions

FAMILIES = ("encoder-decoder", "decoder", "encoder")


def small(model: Model) -> Model:
    other = copy.deepcopy(model)
    quantize(other)
    return other


def scores(model: Any, family: str) -> torch.Tensor:
    source, target = random_tokens(5, 8), random_tokens(4, 6, seed=1)
    with torch.no_grad():
        found: torch.Tensor = model(source, target) if family == "encoder-decoder" else model(source)
    return found


@pytest.mark.parametrize("tie", ["output", "none"])
@pytest.mark.parametrize("family", FAMILIES)
def test_scores_are_nearly_the_same_and_weights_take_less_room(family: str, tie: str) -> None:
    model = build(family, width=64, vocabulary=200, tie=tie).float()
    packed = small(model)
    wanted, found = scores(model, family), scores(packed, family)
    assert 0 < (found - wanted).abs().max() < 0.05 * wanted.abs().max()
    # Tables that are looked up stay as they are; everything else takes a bit more than a quarter.
    tables = sum(getattr(model, side).embedding.table.numel() * 4 for side in family.split("-"))
    back = 200 * 64 + 200 * 8
    assert size_of(packed) - tables - back < 0.4 * (size_of(model) - tables)
    assert any(isinstance(each, Int8Linear) for each in packed.modules())


def test_the_int8_project_to_tokens_is_in_eight_bits_too() -> None:
    tied, own = small(build("decoder", width=64).float()), small(build("decoder", width=64, tie="none").float())
    assert isinstance(tied.decoder.embedding.int8_project, Int8Linear)  # type: ignore[union-attr]
    assert isinstance(own.head.int8_logits, Int8Linear)
    capped = small(build("decoder", width=64, tie="none", head=LanguageOptions(logit_softcap=5.0)).float())
    assert not isinstance(getattr(capped.head, "int8_logits", None), Int8Linear), "a bent score is no matrix"


def test_a_model_that_is_sure_writes_the_same_tokens() -> None:
    """One that was trained to write the token after the last one, modulo the vocabulary."""
    torch.manual_seed(0)
    model = build("decoder", width=64, vocabulary=40).float().train()
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    for _ in range(60):
        ids = (torch.randint(6, 40, (16, 1)) + torch.arange(12) - 6) % 34 + 6
        loss = torch.nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    prompt = TokenBatch.of(torch.arange(6, 30)[:, None])
    request = Request(length=8, prompt=prompt)
    search = make_search("greedy", {})
    wanted = [each[0].tokens for each in search.search(model.start(), request)]  # type: ignore[operator]
    found = [each[0].tokens for each in search.search(small(model).start(), request)]  # type: ignore[operator]
    assert wanted == found
    assert wanted[0][:3] == [7, 8, 9]


@pytest.mark.parametrize("attention", ["latent", "relative", "disentangled"])
def test_parts_that_look_at_their_matrices_still_can(attention: str) -> None:
    from models.tiny_models import KIT

    options = KIT.registry.find("attention", attention).component.options_type.model_validate({"heads": 4})
    model = build("decoder", {"attention": options}, width=64).float()
    wanted, found = scores(model, "decoder"), scores(small(model), "decoder")
    assert (found - wanted).abs().max() < 0.1 * wanted.abs().max()


def test_only_a_finished_model_on_a_cpu_can_be_brought_to_eight_bits() -> None:
    with pytest.raises(KitError, match=r"model\.eval\(\)"):
        quantize(build("decoder").float().train())
    with pytest.raises(KitError, match="not on one"):
        quantize(build("decoder").to("meta"))
