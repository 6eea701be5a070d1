"""A model in float32 whose matrices are arranged writes what the same model writes in float64, as it was made."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from models.searches import begin, make_search, sharpen
from models.tiny_models import build, random_tokens

from kit import Request, SpecialTokenIds, TokenBatch, prepack_weights
from kit.kernels.cpp import decode
from kit.kernels.decoding import PrepackedLinear
from kit_attention.softmax import SoftmaxOptions
from kit_position.alibi import AlibiOptions

MODELS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "encoder-decoder": ("encoder-decoder", {}, {}),
    "wide": ("encoder-decoder", {"depth": 1}, {"width": 256, "vocabulary": 1000}),
    "few kv_heads": ("decoder", {"attention": SoftmaxOptions(heads=4, kv_heads=2)}, {"width": 80}),
    "a bias of heads": ("decoder", {}, {"position": AlibiOptions()}),
}


def written(model: Any, search: str, lengths: tuple[int, ...]) -> list[tuple[list[int], float]]:
    tokens: TokenBatch = random_tokens(*lengths)
    prompt = None if hasattr(model, "encode") else tokens
    settings = {"size": 5} if search == "beam" else {}
    request = Request(length=20, prompt=prompt, special_tokens=SpecialTokenIds(end=7))
    found = make_search(search, settings).search(begin(model, tokens), request)
    return [(each[0].tokens, each[0].score) for each in found]


@pytest.mark.parametrize("lengths", [(9,), (5, 1, 20), (6,) * 40], ids=["one", "some", "many"])
@pytest.mark.parametrize("search", ["greedy", "beam"])
@pytest.mark.parametrize("library", ["native", "another"])
@pytest.mark.parametrize("name", MODELS)
def test_arranged_models_write_the_same(
    name: str, library: str, search: str, lengths: tuple[int, ...], monkeypatch: pytest.MonkeyPatch, request: Any
) -> None:
    if library == "native":
        request.getfixturevalue("native")
    else:
        monkeypatch.setattr(decode.LIBRARY, "load", lambda: False)
        monkeypatch.setattr(decode.LIBRARY, "loaded", False)
    calls = []
    attend = decode.decode_attention
    monkeypatch.setattr(decode, "decode_attention", lambda *given: calls.append(given) or attend(*given))
    family, layer, changes = MODELS[name]
    model = sharpen(build(family, layer, **changes))
    wanted = written(model, search, lengths)
    assert not calls, "float64 is left to torch"
    prepack_weights(model.float())
    found = written(model, search, lengths)
    layers = [module for module in model.modules() if isinstance(module, PrepackedLinear)]
    assert all((layer.backend == "native") == (library == "native") for layer in layers) and layers
    assert bool(calls) == (library == "native")
    assert [tokens for tokens, _ in found] == [tokens for tokens, _ in wanted]
    assert [score for _, score in found] == pytest.approx([score for _, score in wanted], abs=1e-4)


@pytest.mark.usefixtures("native")
def test_another_matrix_writes_something_else() -> None:
    model = sharpen(build("encoder-decoder")).float()
    prepack_weights(model)
    before = written(model, "greedy", (9,))
    stored = model.decoder.stack.layers[0].feedforward
    arranged = next(module for module in stored.modules() if isinstance(module, PrepackedLinear))
    assert arranged.packed is not None
    with torch.no_grad():
        arranged.packed.mul_(-2.0)
    assert written(model, "greedy", (9,)) != before
