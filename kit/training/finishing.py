"""The end of a training: the weights that are kept, measured on what was held out, and the reports."""

from __future__ import annotations

import json

import torch
from torch import Tensor

from kit.model.families import Model
from kit.runs.atomic import write_text
from kit.runs.directory import RunDirectory
from kit.runs.parts import Checkpoint
from kit.runs.store import CheckpointStore
from kit.runs.weights import keep_weights
from kit.training.averaging import mean_of_last
from kit.training.evaluation import Evaluation
from kit.training.logbook import plot_losses
from kit.training.placing import load_weights
from kit.training.preparing import Prepared
from kit.training.progress import Reporter


def finish(
    run: RunDirectory, prepared: Prepared, store: CheckpointStore, reporter: Reporter, step: int
) -> Evaluation | None:
    """Keep the final weights, measure them, and write the reports; step: the one that training ended with."""
    weights = final_weights(prepared, store, step)
    load_weights(prepared.model, weights)
    keep_weights(run, weights)
    if plot_losses(run) is None:
        reporter.say("no plot of the loss, because matplotlib is missing: pip install 'kitformer[plots]'")
    splits = prepared.data.splits()
    split = next((name for name in ("test", "validation") if name in splits), None)
    if split is None:
        return None
    device = "cuda" if torch.cuda.is_available() and prepared.training.accelerator in ("auto", "gpu") else "cpu"
    evaluation = prepared.evaluator(split).measure(prepared.model.to(device))
    report = {"split": split, "figures": dict(evaluation.figures), "signatures": dict(evaluation.signatures)}
    write_text(run.reports / f"{split}.json", json.dumps(report, indent=2) + "\n")
    if evaluation.answers:
        lines = [
            json.dumps({"source": it.source, "answer": it.text, "references": it.references}, ensure_ascii=False)
            for it in evaluation.answers
        ]
        write_text(run.reports / f"{split}_answers.jsonl", "\n".join(lines) + "\n")
    return evaluation


def final_weights(prepared: Prepared, store: CheckpointStore, step: int) -> dict[str, Tensor]:
    """The average that the recipe asks for; else the best checkpoint, else the last, of that step; whole tensors.

    A checkpoint that is damaged is passed over for the next good one, with a warning.
    """
    training = prepared.training
    if training.average is not None and training.average.last is not None:
        return mean_of_last(store.intact(), training.average.last, every=training.checkpoint_every, end=step)
    return averaged_weights(prepared.model, store.load_best())


def averaged_weights(model: Model, checkpoint: Checkpoint) -> dict[str, Tensor]:
    """The moving average of a checkpoint, else its weights as they are."""
    averaged = checkpoint.training["average"]
    if averaged is None:
        return checkpoint.weights
    # Through the model, because a parameter that two modules share has two names in its state and one in the average.
    load_weights(model, checkpoint.weights)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(averaged[name])
    return {name: value.clone() for name, value in model.state_dict().items()}
