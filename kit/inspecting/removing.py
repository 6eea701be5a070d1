"""Takes heads out of a model for good: smaller matrices that compute what the masked model computes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from kit.contracts.attention import Attention
from kit.contracts.regularizer import Regularizer
from kit.errors import KitError
from kit.inspecting.gating import Head, silenced
from kit.inspecting.inspector import Inspector
from kit.inspecting.reading import Ids
from kit.model.families import Model
from kit.recipe.dump import to_yaml
from kit.recipe.sections import Recipe, Vocabularies
from kit.runs.directory import RunDirectory
from kit.runs.labels import write_labels
from kit.runs.lock import Lock
from kit.runs.sources import plugin_sources
from kit.runs.used import used_parts
from kit.runs.weights import keep_weights
from kit.training.origin import read_origin, write_origin

if TYPE_CHECKING:
    from kit.opening import OpenedRun

TOLERANCE = 1e-4
"""How far scores of the smaller model may be from those of the masked one, in float32; more means a mistake."""


@dataclass(frozen=True)
class Smaller:
    """A model without some heads, and the recipe that it is built from."""

    recipe: Recipe
    model: Model
    difference: float
    """The largest difference between its scores and those of the model with the same heads masked."""


def remove(inspector: Inspector, heads: Sequence[Head], rows: Sequence[Ids]) -> Smaller:
    """The model without these heads, tried on these texts against the one that only masks them."""
    opened = inspector.opened
    if opened is None:
        raise KitError("heads are taken out of the model of a run, and there is no run here")
    parts = {name: part for name, part in inspector.model.named_modules() if isinstance(part, Attention)}
    by_site = {part.site.name: name for name, part in parts.items()}
    weights = dict(inspector.model.state_dict())
    kept = {name: list(left) for name, left in (opened.recipe.model.kept_heads or {}).items()}
    counts: dict[str, int] = {}
    for site in sorted({site for site, _ in heads}):
        if site not in by_site:
            raise KitError(
                f"{site} is one of several uses of a layer, whose heads cannot be taken out for one use alone"
            )
        part = parts[by_site[site]]
        counts[site] = _count(part)
        chosen = [head for head in range(counts[site]) if (site, head) not in heads]
        before = kept.get(site, list(range(counts[site])))
        kept[site] = [before[head] for head in chosen]
        weights = _replaced(weights, by_site[site], part, chosen)
    chosen_by_site = {
        site: [head for head in range(count) if (site, head) not in heads] for site, count in counts.items()
    }
    for number, regularizer in enumerate(inspector.model.regularizers):
        assert isinstance(regularizer, Regularizer)
        prefix = f"regularizers.{number}."
        weights = {name: value for name, value in weights.items() if not name.startswith(prefix)}
        weights |= {f"{prefix}{name}": value for name, value in regularizer.with_heads(chosen_by_site).items()}
    recipe = opened.recipe.model_copy(update={"model": opened.recipe.model.model_copy(update={"kept_heads": kept})})
    sizes = Vocabularies(source=opened.tokenizers.source.size, target=opened.tokenizers.target.size)
    model = opened.kit.build(recipe, sizes, opened.tokenizers.symbols())
    model.load_state_dict(weights)
    model.to(next(inspector.model.parameters())).eval().requires_grad_(False)
    difference = _difference(inspector, model, heads, counts, rows)
    if not difference < TOLERANCE:
        raise KitError(
            f"the smaller model differs from the masked one by {difference:.2g}, so an attention of this model does "
            "something with its heads that cannot be cut out; nothing was written"
        )
    return Smaller(recipe, model, difference)


def save(smaller: Smaller, opened: OpenedRun, report: Mapping[str, Any]) -> RunDirectory:
    """A new run beside the old one, which can be opened, and trained on from its weights with `kit resume`."""
    old = Lock.read(opened.run.lock)
    run = RunDirectory.create(smaller.recipe.name, opened.run.path.resolve().parent.parent)
    write_origin(run, read_origin(opened.run))
    opened.tokenizers.save(run.tokenizer)
    write_labels(run, opened.labels)
    parts = used_parts(smaller.recipe, opened.kit.registry)
    Lock.current(plugin_sources(opened.kit.plugins), seed=old.seed, data=old.data, parts=parts).write(run.lock)
    keep_weights(run, {name: value.cpu() for name, value in smaller.model.state_dict().items()})
    run.write(run.reports / "pruning.json", json.dumps(report, indent=2) + "\n")
    run.write(run.recipe, to_yaml(smaller.recipe, opened.kit.registry))
    return run


def _count(part: Attention) -> int:
    return int(getattr(part, "heads", 0) or type(part).head_shape(part.options, part.dims)[0])


def _replaced(weights: dict[str, Tensor], name: str, part: Attention, chosen: Sequence[int]) -> dict[str, Tensor]:
    """The weights of a model with those of one attention cut down."""
    found = part.with_heads(chosen)
    if found is None:
        raise KitError(f"heads of {part.site.name} ({part.part_name()}) cannot be taken out; they can only be masked")
    if not chosen:  # what is left of an attention without heads is the bias of its output
        found = {"bias": found["output.bias"]} if "output.bias" in found else {}
    others = {key: value for key, value in weights.items() if not key.startswith(f"{name}.")}
    return others | {f"{name}.{key}": value for key, value in found.items()}


@torch.inference_mode()
def _difference(
    inspector: Inspector, model: Model, heads: Sequence[Head], counts: Mapping[str, int], rows: Sequence[Ids]
) -> float:
    filled, _ = inspector.filled(rows[:16])
    source, target = inspector.reader.inputs(inspector.reader.batch(filled, inspector.device))
    masked = inspector.model(source, target, packed=True, watcher=silenced(heads, counts))
    return float((masked - model(source, target, packed=True)).abs().max())
