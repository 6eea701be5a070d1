"""Prediction with a trained model: loads a run, encodes inputs, batches them by length and predicts outputs."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import torch
from pydantic import ValidationError

from kit.contracts.objective import Objective, RowFormat
from kit.errors import KitError
from kit.generation.compiled_decoder import compile_steps
from kit.generation.generator import SequenceGenerator
from kit.generation.quantization import quantize
from kit.generation.weight_prepacking import prepack_weights
from kit.kernels.devices import is_cpu
from kit.plugin.component import Options
from kit.plugin.registry import Registry
from kit.prediction.inputs import EncodedInput, InputEncoder, fixed_windows
from kit.prediction.load_run import LoadedRun, load_run
from kit.prediction.tasks import ClassifyTask, FillMaskTask, GenerateTask, Output, PredictionTask
from kit.recipe.loading import load_recipe
from kit.recipe.sections import Recipe
from kit.runs.run_directory import RunDirectory

if TYPE_CHECKING:
    from pathlib import Path

    from kit.kit import Kit
    from kit.model.families import Model


@dataclass(frozen=True)
class Prediction:
    """The outputs for one input."""

    input: str
    """The input text."""
    outputs: tuple[Output, ...]
    """The outputs, the best first; at least one."""
    problem: str = ""
    """Problems of the input, such as truncation or unknown tokens; empty if there are none."""

    @property
    def text(self) -> str:
        """The text of the best output."""
        return self.outputs[0].text


def search_options(recipe: Recipe, registry: Registry, words: str | Options | None, nbest: int) -> Options:
    """Returns the options of a search that returns `nbest` hypotheses.

    words: `beam size=5` names a search and changes it, `size=5` changes that of the recipe, `{use: beam, size: 5}` is
    written as in a recipe; None stands for the search of the recipe, or the installed default.
    """
    if isinstance(words, str):
        recipe = load_recipe(recipe, registry, list(_overrides(recipe, registry, words))).recipe
        words = None
    options: Options = words or recipe.search or _default_search(registry)
    return options if nbest == 1 else _with_nbest(options, registry, nbest)


def _overrides(recipe: Recipe, registry: Registry, words: str) -> Iterator[str]:
    """Yields recipe overrides for a search specification."""
    if words.lstrip().startswith("{"):
        yield f"search={words}"
        return
    try:
        pieces = shlex.split(words)
    except ValueError as error:
        raise KitError(f"the search {words!r} cannot be read: {error}\n    write: name option=value ...") from error
    if recipe.search is None and (not pieces or "=" in pieces[0]):
        yield f"search={_default_search(registry).model_dump()['use']}"
    for number, piece in enumerate(pieces):
        if "=" in piece:
            yield f"search.{piece.removeprefix('search.')}"
        elif number == 0:
            yield f"search={piece}"
        else:
            raise KitError(f"the search {words!r}: found {piece!r}, wanted option=value, such as size=5")


def _with_nbest(options: Options, registry: Registry, nbest: int) -> Options:
    """Returns the same search with the option changed that sets the number of hypotheses."""
    component: type[Any] = registry.part_for_options(type(options)).component
    if not component.several:
        capable = [part for part in registry.components("search") if getattr(part.component, "several", "")]
        names = " or ".join(sorted(part.name for part in capable))
        raise KitError(f"the search {component.name()} gives one answer, and {nbest} are wanted; take {names}")
    values = {**options.model_dump(exclude_unset=True), "use": component.name(), component.several: nbest}
    try:
        return type(options).model_validate(values)
    except ValidationError as error:
        reasons = "; ".join(str(found["msg"]).removeprefix("Value error, ") for found in error.errors())
        raise KitError(f"the search {component.name()} cannot give {nbest} answers: {reasons}") from error


def _default_search(registry: Registry) -> Options:
    found = registry.default("search")
    if found is None:
        raise KitError("no search is named, and no installed one is the default; kit list search shows what there is")
    return found.component.options_type.model_validate({"use": found.name})


TaskName = Literal["seq2seq", "generate", "fill_mask", "classify"]
"""seq2seq: target of a source; generate: continuation of a prompt; fill_mask: masked tokens; classify: class."""
TASKS: Mapping[RowFormat, TaskName] = {
    "seq2seq": "seq2seq",
    "prefix_lm": "seq2seq",
    "classification": "generate",
    "lm_window": "generate",
    "mlm_block": "fill_mask",
}
"""The task of a model with token logits, by the format of its training rows."""
MAX_ROWS = 32
"""The maximum batch size; on a CPU, larger batches cost as much per sequence."""
MAX_TOKENS = 8192
"""The most tokens in a batch, including padding."""
CompileMode: TypeAlias = bool | Literal["batches"]
"""Which decoding steps are compiled: none, those of single sequences, or those of large batches too."""


def load(
    run: str | Path | RunDirectory,
    kit: Kit | None = None,
    *,
    device: str | None = None,
    int8: bool = False,
    compiled: CompileMode = False,
) -> Predictor:
    """Loads the model of a run for prediction: `kit.load("pronounce").predict(["hello"])`.

    run: its folder, its name and number, or its name (the newest); device: default: a GPU if there is one.
    int8: quantizes weights to eight bits, on a CPU: a quarter of the memory, slightly different results.
    compiled: compiles decoding steps: single inputs are faster, but the first takes some seconds; "batches": compiles
    those of large batches too, which gains less.
    """
    if int8 and compiled:
        raise KitError("weights in eight bits are not compiled; take int8 or compiled, not both")
    loaded = load_run(run, kit, device="cpu" if int8 and device is None else device)
    if int8:
        quantize(loaded.model)
    elif is_cpu(loaded.device):
        prepack_weights(loaded.model)
    if compiled:
        compile_steps(loaded.model, batches=compiled == "batches")
    return Predictor(loaded)


class Predictor:
    """Predicts outputs for inputs; the outputs of an input do not depend on the others in its batch."""

    def __init__(self, run: LoadedRun) -> None:
        self.run = run
        objective, supports = run.parts.objective(run.parts.data())
        self.objective: Objective = objective
        self.row_format: RowFormat = supports.row_format
        wanted = run.parts.features_needed() - objective.brings
        self.encoder = InputEncoder(run.tokenizers.source, supports.row_format, run.recipe.model.length, wanted)
        self._cached_task = lru_cache(maxsize=16)(self._new_task)

    @property
    def task(self) -> TaskName:
        """The task of the model, given by its objective."""
        return TASKS[self.row_format] if self.objective.per_token else "classify"

    @cached_property
    def longest(self) -> int:
        """The most tokens of an input; longer inputs are truncated."""
        return self.encoder.longest

    def predict(
        self, inputs: Sequence[str], *, search: str | Options | None = None, nbest: int = 1
    ) -> list[Prediction]:
        """Predicts outputs for a list of inputs, in their order.

        search: the search of a model that generates, such as `beam size=5` or `size=5`; default: that of the recipe.
        nbest: the number of outputs for each input; there may be fewer.
        """
        if isinstance(inputs, str):
            raise KitError("one text was given where a list of texts is wanted; write predict([text])")
        return list(self.answers([inputs] if inputs else [], search=search, nbest=nbest))

    def stream(
        self, lines: Iterable[str], *, search: str | Options | None = None, nbest: int = 1
    ) -> Iterator[Prediction]:
        """Predicts outputs for a stream of inputs; one window at a time is held in memory."""
        return self.answers(fixed_windows(lines), search=search, nbest=nbest)

    def answers(
        self, windows: Iterable[Sequence[str]], *, search: str | Options | None = None, nbest: int = 1
    ) -> Iterator[Prediction]:
        """Predicts outputs for windows of inputs, each before the next is read."""
        if nbest < 1:
            raise KitError(f"{nbest} answers were asked for; wanted at least 1")
        new = self._new_task if isinstance(search, Options) else self._cached_task
        task = new(search, nbest)
        first = 0
        for window in windows:
            yield from self._predict_window(task, window, first)
            first += len(window)

    def _predict_window(self, task: PredictionTask, texts: Sequence[str], first: int) -> list[Prediction]:
        """Predicts outputs for one window; first: the index of its first input, which seeds random numbers."""
        inputs = [self.encoder.encode(text) for text in texts]
        found: dict[int, Prediction] = {}
        for indices in _batches(inputs):
            chosen = [inputs[index] for index in indices]
            batch = self.encoder.batch(chosen, [first + index for index in indices]).to(self.run.device)
            with torch.inference_mode():
                outputs = task.predict(batch, chosen)
            for index, encoded, ranked in zip(indices, chosen, outputs, strict=True):
                found[index] = Prediction(encoded.text, ranked, encoded.problem)
        return [found[index] for index in range(len(texts))]

    def _new_task(self, search: str | Options | None, nbest: int) -> PredictionTask:
        run = self.run
        if self.task in ("classify", "fill_mask"):
            if search is not None:
                raise KitError(f"the model of {run.run.label} generates nothing, so there is nothing to search for")
            if self.task == "classify":
                return ClassifyTask(run.model, run.labels, nbest)
            return FillMaskTask(run.model, run.tokenizers.target, nbest)
        options, target = search_options(run.recipe, run.kit.registry, search, nbest), run.tokenizers.target
        generator = SequenceGenerator.build(options, run.kit.registry, target.encode, target.size)
        draft = self._load_draft(getattr(options, "draft", "")) if generator.search.needs_draft else None
        return GenerateTask(run.model, self.objective, target, generator, run.recipe.model.length, nbest, draft)

    def _load_draft(self, name: str) -> Model:
        """Loads a draft model, which must have the same tokenizers and family, and at least the same length."""
        draft, own = load_run(name, self.run.kit, device=str(self.run.device)), self.run
        refused = f"the run {draft.run.label} cannot guess for {own.run.label}: "
        if draft.tokenizers.fingerprint() != own.tokenizers.fingerprint():
            raise KitError(refused + "they have different tokenizers")
        if draft.recipe.model.family != own.recipe.model.family:
            raise KitError(
                f"{refused}the one is of the family {draft.recipe.model.family}, the other {own.recipe.model.family}"
            )
        length, wanted = draft.recipe.model.length, own.recipe.model.length
        if length < wanted:
            raise KitError(
                f"{refused}it is made for {length} tokens, the other for {wanted}\n"
                f"    train a draft with model.length={wanted}"
            )
        if is_cpu(draft.device):
            prepack_weights(draft.model)
        return draft.model


def _batches(inputs: Sequence[EncodedInput]) -> Iterator[list[int]]:
    """Yields batches of indices of inputs of similar length, the longest first."""
    batch: list[int] = []
    for index in sorted(range(len(inputs)), key=lambda index: -len(inputs[index].ids)):
        longest = len(inputs[batch[0]].ids) if batch else 0
        if batch and (len(batch) == MAX_ROWS or longest * (len(batch) + 1) > MAX_TOKENS):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
