"""Kitformer: Transformers assembled from parts, where every part is a plugin.

Everything a recipe writer or a plugin author needs is importable from here, and nothing else is promised to stay.
Names are looked up when they are first used, so that `import kit` is quick and does not import torch; `__init__.pyi`
tells type checkers of the same names.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "kit.component": "Component Dims Options Site Slot",
    "kit.contracts.attention": "Abilities Attention",
    "kit.contracts.constraint": "Constraint Encode History Phrase hide_token only_token",
    "kit.contracts.data": "Data Example Split Task",
    "kit.contracts.division": "Division in_order",
    "kit.contracts.embedding": "Embedding",
    "kit.contracts.exporter": "ExportCheck ExportSample Exportable Exporter",
    "kit.contracts.feedforward": "Feedforward",
    "kit.contracts.head": "Head",
    "kit.contracts.hidden": "HiddenFeedforward HiddenOptions",
    "kit.contracts.mask": "Both Either Facts Inverse Mask all_of",
    "kit.contracts.measure": "Measure Measured Series Subject",
    "kit.contracts.metric": "Answer Metric Results SummedMetric",
    "kit.contracts.multi_head": "MultiHeadAttention MultiHeadOptions",
    "kit.contracts.norm": "Norm",
    "kit.contracts.objective": "Form Loss Objective Serves",
    "kit.contracts.optimizer": "Optimizer ParameterGroup can_fuse is_sharded parameter_groups torch_groups",
    "kit.contracts.part": "Part collect_losses",
    "kit.contracts.position": "Position",
    "kit.contracts.probe": "EVERYWHERE ITS_OWN_TEXT Drawing HeadProbe PairProbe Probe RecordProbe Role TextProbe",
    "kit.contracts.regularizer": "Regularizer RegularizerOptions",
    "kit.contracts.residual": "Residual Sublayer",
    "kit.contracts.schedule": "Schedule share_done warmed_up",
    "kit.contracts.search": "Decoder Hypothesis Request Search SearchOptions Signs",
    "kit.contracts.stack": "Memory Stack",
    "kit.contracts.tokenizer": "Special Tokenizer",
    "kit.data.batch": "Batch",
    "kit.data.errors": "DataError",
    "kit.data.fingerprints": "digest_of",
    "kit.data.lines": "Lines ParsedLines",
    "kit.data.paths": "find_file",
    "kit.decoding.arranging": "arrange",
    "kit.decoding.building": "Writer",
    "kit.decoding.choices": "Choices",
    "kit.decoding.compiling": "NotCompiledWarning compile_steps",
    "kit.decoding.quantizing": "quantize",
    "kit.decoding.writing": "Writing facts_after limits_of prompt_of",
    "kit.dropout": "Dropout drop",
    "kit.errors": "KitError PartNotFound PluginError Problem RecipeError",
    "kit.exporting.export": "Exported export",
    "kit.groups": "repeat_groups",
    "kit.hookspecs": "hookimpl",
    "kit.inspecting.gating": "FixedHeads HeadGates can_tell_loss head_means head_slopes silenced text_losses",
    "kit.inspecting.inspector": "Inspector inspect",
    "kit.inspecting.probing": "Controls probe",
    "kit.inspecting.reading": "Ids text_ids",
    "kit.inspecting.record": "AttentionMap AttentionRecord Kind TokenRow",
    "kit.inspecting.report": "Report",
    "kit.inspecting.saliency": "Saliency saliency",
    "kit.kit": "Kit",
    "kit.layout": "Layout",
    "kit.matrices": "linear speed_up",
    "kit.model.families": "DecoderModel EncoderDecoder EncoderModel Model",
    "kit.model.session": "Session",
    "kit.opening": "DifferentRunWarning OpenedRun open_run",
    "kit.precision": "without_autocast",
    "kit.predicting.prediction": "Output Prediction",
    "kit.predicting.predictor": "Predictor load",
    "kit.recipe.sections": "ModelSection Recipe Section",
    "kit.recipe.training_section": "TokenizerPair TrainingSection",
    "kit.runs.tensors": "read_tensors replace_tensors",
    "kit.scope": "Scope",
    "kit.slots": "AttentionSlot ConstraintSlot DataSlot EmbeddingSlot FeedforwardSlot HeadSlot MaskSlot MeasureSlot "
    "MetricSlot NormSlot ObjectiveSlot OptimizerSlot PositionSlot RegularizerSlot ResidualSlot ScheduleSlot SearchSlot "
    "StackSlot TokenizerSlot",
    "kit.state": "KeyValueState MemoryState NoState State States TensorState",
    "kit.tokens": "Tokens last_of",
    "kit.watching": "Recorder Watcher",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

__version__ = "0.1.0"
__all__ = sorted(_HOME_OF)


_RENAMED: dict[str, tuple[str, str]] = {}
"""Old names that still work: what each is called now, and the release that will be the first without it."""


def __getattr__(name: str) -> Any:
    if name in _RENAMED:
        from warnings import warn

        new, gone = _RENAMED[name]
        warn(f"kit.{name} is called kit.{new} now, and {gone} will not have it", DeprecationWarning, stacklevel=2)
        return getattr(import_module("kit"), new)
    if name not in _HOME_OF:
        raise AttributeError(f"module 'kit' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME_OF])
