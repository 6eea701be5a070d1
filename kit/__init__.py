"""Kitformer: Transformers assembled from parts, where every part is a plugin.

Everything a recipe writer or a plugin author needs is importable from here, and nothing else is promised to stay.
Names are looked up when they are first used, so that `import kit` is quick and does not import torch; `__init__.pyi`
tells type checkers of the same names.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "kit.explain.part_reference": "capabilities",
    "kit.plugin.discovery": "LoadedPlugin Registered",
    "kit.plugin.registry": "Registry",
    "kit.prediction.load_run": "DifferentRunWarning LoadedRun load_run",
    "kit.distributed.launcher": "must_launch launch_processes",
    "kit.distributed.state": "load_weights",
    "kit.explain.explanation": "MAX_MEASURED_LENGTH",
    "kit.files.atomic": "write_text",
    "kit.model.builder": "meta_init ModelBuilder",
    "kit.recipe.dump": "to_yaml to_data",
    "kit.recipe.parts": "tokens_with_features features_needed RecipeParts",
    "kit.recipe.section_document": "SectionDocument",
    "kit.runs.lock": "Lock",
    "kit.runs.metrics_file": "MetricsFile",
    "kit.runs.provenance": "used_parts plugin_sources",
    "kit.runs.run_directory": "write_origin write_labels read_origin is_run_claimed claim_run RunDirectory",
    "kit.runs.weights": "read_weights save_weights",
    "kit.training.dry_run": "plan_training",
    "kit.training.preparation": "prepare_training init_pretrained PreparedTraining",
    "kit.training.lightning_trainer": "silence_lightning",
    "kit.training.train": "train",
    "kit.kernels.rng_state": "preserve_rng_state",
    "kit.contracts.attention": "Attention Capabilities",
    "kit.contracts.constraint": "Constraint Encode History Phrase hide_token only_token",
    "kit.contracts.data": "Data Example Split Task",
    "kit.contracts.embedding": "Embedding Head",
    "kit.contracts.exporter": "ExportCheck ExportSample Exportable Exporter",
    "kit.contracts.layer_plan": "LayerPlan",
    "kit.contracts.mask": "Both Either Inverse Mask all_of",
    "kit.contracts.measure": "Measure Measured Series Subject",
    "kit.contracts.metric": "Answer Metric Results SummedMetric",
    "kit.contracts.multi_head": "MultiHeadAttention MultiHeadOptions",
    "kit.contracts.objective": "RowFormat Loss Objective Supports",
    "kit.contracts.optimizer": "Optimizer ParameterGroup can_fuse is_sharded parameter_groups torch_groups",
    "kit.contracts.part": "Part collect_losses",
    "kit.contracts.position": "Position",
    "kit.contracts.probe": "ALL_ATTENTION AttentionKind Drawing HeadProbe PairProbe Probe RecordProbe Role "
    "SELF_ATTENTION SequenceProbe attention_kind",
    "kit.inspection.attention_record": "AttentionMap AttentionRecord TokenRow",
    "kit.inspection.example_reader": "ExampleIds ExampleLike ExampleReader as_example is_special_token "
    "ordinary_token_ids",
    "kit.inspection.head_masking": "HeadId HeadMask PatchedHeads ablated has_loss head_gradients mean_head_outputs "
    "sequence_losses",
    "kit.inspection.inspector": "Inspector inspect",
    "kit.contracts.regularizer": "Regularizer RegularizerOptions",
    "kit.contracts.schedule": "Schedule progress_between warmup_factor",
    "kit.contracts.search": "Decoder Hypothesis Request Search SearchOptions SpecialTokenIds",
    "kit.contracts.stack": "EncoderOutput Stack",
    "kit.contracts.sublayer": "Feedforward MLP MLPOptions Norm Residual Sublayer",
    "kit.contracts.tensor_parallel": "TensorParallelShard contiguous_shard",
    "kit.contracts.tokenizer": "Special Tokenizer",
    "kit.data.lines": "Lines ParsedLines",
    "kit.data.paths": "DataError find_file",
    "kit.data.cache_folder": "digest_of",
    "kit.errors": "KitError PartNotFound PluginError Problem RecipeError",
    "kit.exporting.export": "Exported export",
    "kit.files.tensors": "read_tensors replace_tensors",
    "kit.generation.compiled_decoder": "NotCompiledWarning compile_steps",
    "kit.generation.generator": "GenerationState SequenceGenerator features_after limits_of prompt_of",
    "kit.generation.next_token": "NextTokenLogProbs",
    "kit.generation.quantization": "quantize",
    "kit.generation.weight_prepacking": "prepack_weights",
    "kit.hookspecs": "hookimpl API_LEVEL",
    "kit.recipe.slot_schema": "bind",
    "kit.kernels.attention": "repeat_kv",
    "kit.kernels.devices": "without_autocast",
    "kit.kernels.dropout": "Dropout drop",
    "kit.kernels.linear": "linear use_fast_linear",
    "kit.kit": "Kit",
    "kit.model.decoding_session": "DecodingSession",
    "kit.model.families": "DecoderModel EncoderDecoder EncoderModel Model",
    "kit.plugin.component": "AttentionSlot BuildContext Component ConstraintSlot DataSlot Dims EmbeddingSlot "
    "FeedforwardSlot HeadSlot MaskSlot MeasureSlot MetricSlot NormSlot ObjectiveSlot OptimizerSlot Options "
    "PositionSlot RegularizerSlot ResidualSlot ScheduleSlot SearchSlot Slot StackSlot TokenizerSlot",
    "kit.prediction.predictor": "Prediction Predictor load",
    "kit.prediction.tasks": "Output",
    "kit.recipe.sections": "Vocabularies ModelSection Recipe Section TokenizerPair TrainingSection",
    "kit.sequence.attention_context": "AttentionContext MaskFeatures",
    "kit.sequence.batch": "Batch",
    "kit.sequence.batch_layout": "BatchLayout TokenBatch last_token",
    "kit.sequence.cache": "Cache CacheList CrossAttentionKVCache KVCache NoCache RecurrentCache",
    "kit.sequence.observer": "AttentionObserver AttentionRecorder",
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
