"""Head pruning: slices attention heads out of weight matrices, with the same logits as masking these heads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from kit import (
    Attention,
    ExampleIds,
    HeadId,
    Inspector,
    KitError,
    Lock,
    Model,
    Recipe,
    Regularizer,
    RunDirectory,
    Vocabularies,
    ablated,
    plugin_sources,
    read_origin,
    save_weights,
    to_yaml,
    used_parts,
    write_labels,
    write_origin,
)

if TYPE_CHECKING:
    from kit import LoadedRun

TOLERANCE = 1e-4
"""The largest allowed difference between the logits of the pruned and of the masked model, in float32."""


@dataclass(frozen=True)
class PrunedModel:
    """A model without the pruned heads, and the recipe that builds it."""

    recipe: Recipe
    model: Model
    difference: float
    """The largest difference from the logits of the model with the same heads masked."""


def prune_heads(inspector: Inspector, heads: Sequence[HeadId], rows: Sequence[ExampleIds]) -> PrunedModel:
    """Prunes heads, and compares the logits of these examples with those of masked heads."""
    loaded = inspector.loaded_run
    if loaded is None:
        raise KitError("heads are taken out of the model of a run, and there is no run here")
    modules = {name: part for name, part in inspector.model.named_modules() if isinstance(part, Attention)}
    name_of_site = {part.build_context.name: name for name, part in modules.items()}
    weights = dict(inspector.model.state_dict())
    kept_heads = {name: list(left) for name, left in (loaded.recipe.model.kept_heads or {}).items()}
    head_counts: dict[str, int] = {}
    remaining: dict[str, list[int]] = {}
    for site in sorted({site for site, _ in heads}):
        if site not in name_of_site:
            raise KitError(
                f"{site} is one of several uses of a layer, whose heads cannot be taken out for one use alone"
            )
        part = modules[name_of_site[site]]
        head_counts[site] = _head_count(part)
        remaining[site] = [head for head in range(head_counts[site]) if (site, head) not in heads]
        before = kept_heads.get(site, list(range(head_counts[site])))
        kept_heads[site] = [before[head] for head in remaining[site]]
        weights = _with_pruned_module(weights, name_of_site[site], part, remaining[site])
    for number, regularizer in enumerate(inspector.model.regularizers):
        assert isinstance(regularizer, Regularizer)
        prefix = f"regularizers.{number}."
        weights = {name: value for name, value in weights.items() if not name.startswith(prefix)}
        weights |= {f"{prefix}{name}": value for name, value in regularizer.select_heads(remaining).items()}
    section = loaded.recipe.model.model_copy(update={"kept_heads": kept_heads})
    recipe = loaded.recipe.model_copy(update={"model": section})
    sizes = Vocabularies(source=loaded.tokenizers.source.size, target=loaded.tokenizers.target.size)
    model = loaded.kit.build(recipe, sizes, loaded.tokenizers.symbols())
    model.load_state_dict(weights)
    model.to(next(inspector.model.parameters())).eval().requires_grad_(False)
    difference = _difference(inspector, model, heads, head_counts, rows)
    if not difference < TOLERANCE:
        raise KitError(
            f"the smaller model differs from the masked one by {difference:.2g}, so an attention of this model does "
            "something with its heads that cannot be cut out; nothing was written"
        )
    return PrunedModel(recipe, model, difference)


def save_pruned(pruned: PrunedModel, loaded: LoadedRun, report: Mapping[str, Any]) -> RunDirectory:
    """Writes a new run beside the old one, which can be loaded, and fine-tuned with `kit resume`."""
    old = Lock.read(loaded.run.lock)
    run = RunDirectory.create(pruned.recipe.name, loaded.run.path.resolve().parent.parent)
    write_origin(run, read_origin(loaded.run))
    loaded.tokenizers.save(run.tokenizer)
    write_labels(run, loaded.labels)
    parts = used_parts(pruned.recipe, loaded.kit.registry)
    Lock.current(plugin_sources(loaded.kit.plugins), seed=old.seed, data=old.data, parts=parts).write(run.lock)
    save_weights(run, {name: value.cpu() for name, value in pruned.model.state_dict().items()})
    run.write(run.reports / "pruning.json", json.dumps(report, indent=2) + "\n")
    run.write(run.recipe, to_yaml(pruned.recipe, loaded.kit.registry))
    return run


def _head_count(part: Attention) -> int:
    return int(getattr(part, "heads", 0) or type(part).head_shape(part.options, part.dims)[0])


def _with_pruned_module(
    weights: dict[str, Tensor], name: str, part: Attention, remaining: Sequence[int]
) -> dict[str, Tensor]:
    """Returns the state dict with the parameters of one attention module sliced to its remaining heads."""
    found = part.select_heads(remaining)
    if found is None:
        raise KitError(
            f"heads of {part.build_context.name} ({part.name()}) cannot be taken out; they can only be masked"
        )
    if not remaining:  # a fully pruned module still adds the bias of its output projection
        found = {"bias": found["output.bias"]} if "output.bias" in found else {}
    others = {key: value for key, value in weights.items() if not key.startswith(f"{name}.")}
    return others | {f"{name}.{key}": value for key, value in found.items()}


@torch.inference_mode()
def _difference(
    inspector: Inspector,
    model: Model,
    heads: Sequence[HeadId],
    head_counts: Mapping[str, int],
    rows: Sequence[ExampleIds],
) -> float:
    complete, _ = inspector.with_generated_targets(rows[:16])
    source, target = inspector.reader.model_inputs(inspector.reader.batch(complete, inspector.device))
    masked = inspector.model(source, target, packed=True, observer=ablated(heads, head_counts))
    return float((masked - model(source, target, packed=True)).abs().max())
