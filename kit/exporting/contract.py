"""The input contract of an export: how a text becomes the inputs of the model, with an example and its output."""

from __future__ import annotations

from typing import Any

import torch

from kit.contracts.exporter import Exportable, ExportSample
from kit.contracts.search import Decoder, Request, SpecialTokenIds
from kit.contracts.tokenizer import Special
from kit.generation.generator import GenerationState
from kit.prediction.inputs import EncodedInput
from kit.prediction.predictor import Predictor
from kit.sequence.batch import Batch
from kit.sequence.batch_layout import TokenBatch

MASK, MOST_WORDS, MOST_TOKENS = "___", 4, 24
"""The written form of a mask, and the most words of a prompt and tokens after it in the example."""


@torch.no_grad()
def input_contract(predictor: Predictor, subject: Exportable) -> tuple[dict[str, Any], ExportSample]:
    """Returns what `export.json` says of inputs, and its example as a sample to compare on.

    A frame has the ids before and after those of a text, the most of these and which are kept of more, and the value of
    each token feature for tokens that are given; it is 0 for generated ones.
    """
    encoder, task = predictor.encoder, predictor.task
    encoded = encoder.encode(_example_text(predictor, subject.samples[0]))
    batch = encoder.batch([encoded], [0])
    assert batch.source is not None
    generates = task in ("seq2seq", "generate")
    started = predictor.objective.begin(subject.model, batch) if generates else None
    tokens = {"encoder": batch.source, "decoder": batch.source if started is None else started[1]}
    template = encoder.template
    frame = {"before": template.before, "after": template.after, "longest": encoder.longest, "kept": template.kept}
    frames, inputs, sample = dict[str, Any](), dict[str, Any](), dict[str, TokenBatch]()
    for side, tower in (("source", "encoder"), ("target", "decoder")):
        if hasattr(subject.model, tower):
            ids, features = tokens[tower].ids, tokens[tower].features
            read = {name: features.get(name, 0 * ids).long() for name in subject.features.get(tower, ())}
            sample[side] = TokenBatch(ids, None, read, right_padded=True)
            frames[side] = {**frame, "features": {name: int(feature[0, 0]) for name, feature in read.items()}}
            inputs |= {side: ids.tolist(), f"{side}_mask": torch.ones_like(ids).bool().tolist()}
            inputs |= {f"{side}_{name}": feature.tolist() for name, feature in read.items()}
            # What an encoder-decoder generates follows a start token.
            frame = {"before": [Special.START], "after": [], "longest": subject.length - 1, "kept": "first"}
    suppressed = {"fill_mask": range(len(Special)), "classify": ()}.get(task, SpecialTokenIds().suppressed)
    output = _generated(predictor, *started) if started else {} if generates else _predicted(predictor, encoded, batch)
    return {
        "task": task,
        "length": subject.length,
        "special_tokens": {each.name.lower(): int(each) for each in Special},
        "suppressed": [int(token) for token in suppressed],
        "mask_takes_space": task == "fill_mask" and any(not start for _, start, _ in encoder.encode(f" {MASK}").masks),
        "frames": frames,
        "example": {"text": encoded.text, "inputs": inputs, "output": output},
    }, ExportSample(**sample)


def _example_text(predictor: Predictor, sample: ExportSample) -> str:
    """Returns the text of the first sample; its first words for a model that goes on, with a mask for fill-in."""
    tokens = sample.target if sample.source is None else sample.source
    assert tokens is not None
    ids = tokens.ids[0].tolist()
    end = ids.index(Special.SEPARATOR) if Special.SEPARATOR in ids else None
    text = predictor.run.tokenizers.source.decode(ids[:end])
    words = text.split()[:MOST_WORDS] or [""]
    if predictor.task == "fill_mask":
        words[len(words) // 2] = MASK
    return " ".join(words) if predictor.task in ("fill_mask", "generate") else text


def _generated(predictor: Predictor, decoder: Decoder, prompt: TokenBatch) -> dict[str, Any]:
    """Returns the first tokens of greedy search, and their text."""
    most = max(1, min(MOST_TOKENS, predictor.run.recipe.model.length - prompt.ids.shape[1]))
    state = GenerationState(decoder, Request(most, prompt=prompt))
    _, token_R = state.prefill().best()
    found = [int(token_R)]
    while found[-1] != Special.END and len(found) < most:
        _, token_R = state.step_greedy(token_R)
        found.append(int(token_R))
    return {"tokens": found, "text": predictor.run.tokenizers.target.decode(found)}


def _predicted(predictor: Predictor, encoded: EncodedInput, batch: Batch) -> dict[str, Any]:
    """Returns the logits of the classes, or the token of each mask, and the predicted text with its score."""
    logits = predictor.run.model(batch.source)[0]
    (found,) = predictor.predict([encoded.text])
    first = len(Special)
    tokens = [first + int(logits[index, first:].argmax()) for index, _, _ in encoded.masks]
    numbers = {"logits": logits.tolist()} if predictor.task == "classify" else {"tokens": tokens}
    return {**numbers, "text": found.text, "score": found.outputs[0].score}
