"""Kitformer: Transformers assembled from parts, where every part is a plugin.

Everything a recipe writer or a plugin author needs is importable from here, and nothing else is promised to stay.
Names are looked up when they are first used, so that `import kit` is quick and does not import torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kit.component import Component as Component
    from kit.component import Dims as Dims
    from kit.component import Options as Options
    from kit.component import Site as Site
    from kit.component import Slot as Slot
    from kit.contracts.attention import Abilities as Abilities
    from kit.contracts.attention import Attention as Attention
    from kit.contracts.constraint import Constraint as Constraint
    from kit.contracts.constraint import Encode as Encode
    from kit.contracts.constraint import History as History
    from kit.contracts.constraint import Phrase as Phrase
    from kit.contracts.constraint import hide_token as hide_token
    from kit.contracts.constraint import only_token as only_token
    from kit.contracts.data import Data as Data
    from kit.contracts.data import Example as Example
    from kit.contracts.data import Split as Split
    from kit.contracts.data import Task as Task
    from kit.contracts.embedding import Embedding as Embedding
    from kit.contracts.feedforward import Feedforward as Feedforward
    from kit.contracts.head import Head as Head
    from kit.contracts.hidden import HiddenFeedforward as HiddenFeedforward
    from kit.contracts.hidden import HiddenOptions as HiddenOptions
    from kit.contracts.mask import Both as Both
    from kit.contracts.mask import Either as Either
    from kit.contracts.mask import Facts as Facts
    from kit.contracts.mask import Inverse as Inverse
    from kit.contracts.mask import Mask as Mask
    from kit.contracts.mask import all_of as all_of
    from kit.contracts.metric import Answer as Answer
    from kit.contracts.metric import Metric as Metric
    from kit.contracts.metric import Results as Results
    from kit.contracts.multi_head import MultiHeadAttention as MultiHeadAttention
    from kit.contracts.multi_head import MultiHeadOptions as MultiHeadOptions
    from kit.contracts.norm import Norm as Norm
    from kit.contracts.objective import Form as Form
    from kit.contracts.objective import Loss as Loss
    from kit.contracts.objective import Objective as Objective
    from kit.contracts.objective import Serves as Serves
    from kit.contracts.optimizer import Optimizer as Optimizer
    from kit.contracts.optimizer import ParameterGroup as ParameterGroup
    from kit.contracts.optimizer import can_fuse as can_fuse
    from kit.contracts.optimizer import is_sharded as is_sharded
    from kit.contracts.optimizer import parameter_groups as parameter_groups
    from kit.contracts.optimizer import torch_groups as torch_groups
    from kit.contracts.part import Part as Part
    from kit.contracts.part import collect_losses as collect_losses
    from kit.contracts.position import Position as Position
    from kit.contracts.residual import Residual as Residual
    from kit.contracts.residual import Sublayer as Sublayer
    from kit.contracts.schedule import Schedule as Schedule
    from kit.contracts.schedule import share_done as share_done
    from kit.contracts.schedule import warmed_up as warmed_up
    from kit.contracts.search import Decoder as Decoder
    from kit.contracts.search import Hypothesis as Hypothesis
    from kit.contracts.search import Request as Request
    from kit.contracts.search import Search as Search
    from kit.contracts.search import SearchOptions as SearchOptions
    from kit.contracts.search import Signs as Signs
    from kit.contracts.stack import Memory as Memory
    from kit.contracts.stack import Stack as Stack
    from kit.contracts.tokenizer import Special as Special
    from kit.contracts.tokenizer import Tokenizer as Tokenizer
    from kit.data.batch import Batch as Batch
    from kit.data.errors import DataError as DataError
    from kit.data.fingerprints import digest_of as digest_of
    from kit.data.lines import Lines as Lines
    from kit.data.lines import ParsedLines as ParsedLines
    from kit.data.paths import find_file as find_file
    from kit.decoding.arranging import arrange as arrange
    from kit.decoding.building import Writer as Writer
    from kit.decoding.choices import Choices as Choices
    from kit.decoding.greedy import greedy as greedy
    from kit.decoding.writing import Writing as Writing
    from kit.decoding.writing import facts_after as facts_after
    from kit.decoding.writing import limits_of as limits_of
    from kit.decoding.writing import prompt_of as prompt_of
    from kit.dropout import Dropout as Dropout
    from kit.dropout import drop as drop
    from kit.errors import KitError as KitError
    from kit.errors import PartNotFound as PartNotFound
    from kit.errors import PluginError as PluginError
    from kit.errors import Problem as Problem
    from kit.errors import RecipeError as RecipeError
    from kit.hookspecs import hookimpl as hookimpl
    from kit.kit import Kit as Kit
    from kit.layout import Layout as Layout
    from kit.model.families import DecoderModel as DecoderModel
    from kit.model.families import EncoderDecoder as EncoderDecoder
    from kit.model.families import EncoderModel as EncoderModel
    from kit.model.families import Model as Model
    from kit.model.session import Session as Session
    from kit.opening import DifferentRunWarning as DifferentRunWarning
    from kit.opening import OpenedRun as OpenedRun
    from kit.opening import open_run as open_run
    from kit.precision import without_autocast as without_autocast
    from kit.recipe.sections import ModelSection as ModelSection
    from kit.recipe.sections import Recipe as Recipe
    from kit.recipe.sections import Section as Section
    from kit.recipe.training_section import TokenizerPair as TokenizerPair
    from kit.recipe.training_section import TrainingSection as TrainingSection
    from kit.scope import Scope as Scope
    from kit.scope import repeat_groups as repeat_groups
    from kit.slots import AttentionSlot as AttentionSlot
    from kit.slots import ConstraintSlot as ConstraintSlot
    from kit.slots import DataSlot as DataSlot
    from kit.slots import EmbeddingSlot as EmbeddingSlot
    from kit.slots import FeedforwardSlot as FeedforwardSlot
    from kit.slots import HeadSlot as HeadSlot
    from kit.slots import MaskSlot as MaskSlot
    from kit.slots import MetricSlot as MetricSlot
    from kit.slots import NormSlot as NormSlot
    from kit.slots import ObjectiveSlot as ObjectiveSlot
    from kit.slots import OptimizerSlot as OptimizerSlot
    from kit.slots import PositionSlot as PositionSlot
    from kit.slots import ResidualSlot as ResidualSlot
    from kit.slots import ScheduleSlot as ScheduleSlot
    from kit.slots import SearchSlot as SearchSlot
    from kit.slots import StackSlot as StackSlot
    from kit.slots import TokenizerSlot as TokenizerSlot
    from kit.state import KeyValueState as KeyValueState
    from kit.state import MemoryState as MemoryState
    from kit.state import NoState as NoState
    from kit.state import State as State
    from kit.state import States as States
    from kit.state import TensorState as TensorState
    from kit.tokens import Tokens as Tokens
    from kit.tokens import last_of as last_of
    from kit.watching import Recorder as Recorder
    from kit.watching import Watcher as Watcher

_HOMES = {
    "kit.component": "Component Dims Options Site Slot",
    "kit.contracts.attention": "Abilities Attention",
    "kit.contracts.constraint": "Constraint Encode History Phrase hide_token only_token",
    "kit.contracts.data": "Data Example Split Task",
    "kit.contracts.embedding": "Embedding",
    "kit.contracts.feedforward": "Feedforward",
    "kit.contracts.head": "Head",
    "kit.contracts.hidden": "HiddenFeedforward HiddenOptions",
    "kit.contracts.mask": "Both Either Facts Inverse Mask all_of",
    "kit.contracts.metric": "Answer Metric Results",
    "kit.contracts.multi_head": "MultiHeadAttention MultiHeadOptions",
    "kit.contracts.norm": "Norm",
    "kit.contracts.objective": "Form Loss Objective Serves",
    "kit.contracts.optimizer": "Optimizer ParameterGroup can_fuse is_sharded parameter_groups torch_groups",
    "kit.contracts.part": "Part collect_losses",
    "kit.contracts.position": "Position",
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
    "kit.decoding.greedy": "greedy",
    "kit.decoding.writing": "Writing facts_after limits_of prompt_of",
    "kit.dropout": "Dropout drop",
    "kit.errors": "KitError PartNotFound PluginError Problem RecipeError",
    "kit.hookspecs": "hookimpl",
    "kit.kit": "Kit",
    "kit.layout": "Layout",
    "kit.model.families": "DecoderModel EncoderDecoder EncoderModel Model",
    "kit.model.session": "Session",
    "kit.opening": "DifferentRunWarning OpenedRun open_run",
    "kit.precision": "without_autocast",
    "kit.recipe.sections": "ModelSection Recipe Section",
    "kit.recipe.training_section": "TokenizerPair TrainingSection",
    "kit.scope": "Scope repeat_groups",
    "kit.slots": "AttentionSlot ConstraintSlot DataSlot EmbeddingSlot FeedforwardSlot HeadSlot MaskSlot MetricSlot "
    "NormSlot ObjectiveSlot OptimizerSlot PositionSlot ResidualSlot ScheduleSlot SearchSlot StackSlot TokenizerSlot",
    "kit.state": "KeyValueState MemoryState NoState State States TensorState",
    "kit.tokens": "Tokens last_of",
    "kit.watching": "Recorder Watcher",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

__version__ = "0.1.0"
__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'kit' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME_OF])
