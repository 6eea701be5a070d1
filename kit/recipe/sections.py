"""The sections of a recipe: frozen, strict pydantic models, documented by the docstrings of their fields."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from kit.plugin.component import (
    DataSlot,
    EmbeddingSlot,
    HeadSlot,
    MetricSlot,
    NormSlot,
    ObjectiveSlot,
    OptimizerSlot,
    PositionSlot,
    RegularizerSlot,
    ScheduleSlot,
    SearchSlot,
    StackSlot,
    TokenizerSlot,
)


class Section(BaseModel):
    """A section of a recipe with fixed keys: frozen, unknown keys refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False, hide_input_in_errors=True
    )


class TokenizerPair(Section):
    """A tokenizer for each side of a pair; a shared one is written in place of this section."""

    source: TokenizerSlot
    """The tokenizer of the source."""
    target: TokenizerSlot
    """The tokenizer of the target."""


class AverageSection(Section):
    """Weight averaging: either of these."""

    ema: float | None = Field(default=None, gt=0.0, lt=1.0)
    """The decay of an exponential moving average over the steps, such as 0.999; smaller in the first steps."""
    last: int | None = Field(default=None, ge=2, le=100)
    """The number of checkpoints to average, those every `checkpoint_every` steps and at the end; a new best
    or an interruption adds none (Vaswani et al. 2017, section 6.1)."""

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.ema is None) == (self.last is None):
            raise ValueError("either ema or last is wanted, such as {ema: 0.999} or {last: 5}")
        return self


class TrainingSection(Section):
    """Training. The global batch, the order of the data and the random numbers do not depend on the machine."""

    steps: PositiveInt
    """The number of optimizer steps."""
    batch_tokens: PositiveInt
    """The maximum number of tokens of a global batch with padding, on all processes together."""
    optimizer: OptimizerSlot | None = None
    """The optimizer; by default the installed default."""
    schedule: ScheduleSlot | None = None
    """The learning rate schedule; by default the installed default."""
    objective: ObjectiveSlot | None = None
    """The objective (loss); by default the one for the model's family and the data."""
    seed: NonNegativeInt = Field(default=0, le=2**32 - 1)
    """The seed of initial weights, data order and dropout."""
    clip_grad_norm: PositiveFloat | None = 1.0
    """The maximum gradient norm (gradient clipping); null for none."""
    accumulate_steps: PositiveInt = 1
    """Gradient accumulation: the number of pieces of a global batch, to save memory; same results."""
    workers: NonNegativeInt = 0
    """The number of data loader processes; 0 loads in the training process."""

    metrics: list[MetricSlot] = Field(default_factory=list)
    """The metrics on held-out data, besides the loss."""
    validate_every: PositiveInt = 500
    """The number of steps between two validations."""
    validation_examples: PositiveInt = 1000
    """The number of examples, or windows of text, of a validation; always the same ones."""
    metric: str = "loss"
    """The metric of the best checkpoint: loss, or the name of one of the metrics."""
    patience: PositiveInt | None = None
    """Early stopping: the number of validations without a new best after which training ends; null for never."""

    checkpoint_every: PositiveInt = 500
    """The number of steps between two checkpoints; a new best is saved too."""
    keep_checkpoints: PositiveInt = 2
    """The number of newest checkpoints to keep, besides the best and those to average."""
    average: AverageSection | None = None
    """Averaging of the final weights: {ema: 0.999} or {last: 5}."""

    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    """Mixed precision: the dtype of the computation; weights stay in float32."""
    accelerator: Literal["auto", "cpu", "gpu", "mps"] = "auto"
    """The accelerator; auto takes a GPU if there is one."""
    devices: PositiveInt = 1
    """The number of devices on each node."""
    nodes: PositiveInt = 1
    """The number of nodes (machines)."""
    strategy: Literal["auto", "ddp", "fsdp"] = "auto"
    """The parallel strategy: ddp replicates the model, fsdp shards it; auto is ddp for several devices."""
    tensor_parallel: PositiveInt = 1
    """Tensor parallel size: the number of processes of a node that share each layer; needs strategy: fsdp."""
    timeout: PositiveFloat = 120.0
    """Seconds after which a missing or stuck process is named and the others end, with several processes."""


Family = Literal["encoder-decoder", "encoder", "decoder"]


class Vocabularies(Section):
    """Separate vocabulary sizes for the two sides of an encoder-decoder."""

    source: PositiveInt
    """The vocabulary size of the encoder."""
    target: PositiveInt
    """The vocabulary size of the decoder."""


class ModelSection(Section):
    """The model: its family, its sizes and its components."""

    family: Family
    """encoder-decoder (sequence to sequence), encoder (masked LM, classification) or decoder (causal LM)."""
    width: PositiveInt = Field(le=1_000_000)
    """The model width (hidden size, d_model)."""
    vocabulary: PositiveInt | Vocabularies | None = None
    """The vocabulary size; by default the tokenizer's."""
    length: PositiveInt = Field(default=512, le=10_000_000)
    """The maximum sequence length, in tokens."""
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """The dropout probability after every sublayer and after the embedding."""
    embedding: EmbeddingSlot | None = None
    """The token embedding; by default the installed default."""
    tie: Literal["none", "output", "inputs", "all"] = "output"
    """Weight tying: output (target embedding, output projection), inputs (source, target embeddings), all, none."""
    position: PositionSlot | None = None
    """The positional encoding of stacks that name none of their own."""
    norm: NormSlot | None = None
    """The normalization of stacks that name none of their own."""
    embedding_norm: bool = False
    """Whether embeddings with positions are normalized before the first layer (BART, BERT)."""
    encoder: StackSlot | None = None
    """The encoder stack."""
    decoder: StackSlot | None = None
    """The decoder stack."""
    head: HeadSlot | None = None
    """The output head; by default logits over the vocabulary."""
    regularizers: list[RegularizerSlot] = Field(default_factory=list)
    """Attention regularizers in training, such as [{use: entropy, strength: 0.01}]."""
    kept_heads: dict[str, list[NonNegativeInt]] | None = None
    """The kept heads of pruned attentions: {decoder.0.attention: [0, 3]}. Written by `kit prune`."""


class Recipe(Section):
    """A recipe, one YAML file: a name and a model, with its data and training."""

    name: str = Field(min_length=1, max_length=100, pattern=r"^[\w][\w.-]*$")
    """The name of the runs of this recipe."""
    description: str = ""
    """A description."""
    model: ModelSection
    """The model."""
    tokenizer: TokenizerSlot | TokenizerPair | None = None
    """The tokenizer, or {source: ..., target: ...} for the two sides of pairs."""
    data: DataSlot | None = None
    """The data."""
    training: TrainingSection | None = None
    """The training."""
    search: SearchSlot | None = None
    """The search of generation at the end of training, in `kit predict` and in `kit evaluate`; by default the installed
    default. Validations during training use that default, because it is fast."""

    def _repr_html_(self) -> str:
        """The HTML representation in notebooks."""
        from kit.recipe.html import recipe_html

        return recipe_html(self, self.name)
