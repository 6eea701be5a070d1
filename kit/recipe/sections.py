"""The sections of a recipe: what a model is made of, by slot; which parts may fill a slot is bound later."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from kit.recipe.section import Section as Section
from kit.recipe.training_section import TokenizerPair, TrainingSection
from kit.slots import (
    DataSlot,
    EmbeddingSlot,
    HeadSlot,
    NormSlot,
    PositionSlot,
    RegularizerSlot,
    SearchSlot,
    StackSlot,
    TokenizerSlot,
)

Family = Literal["encoder-decoder", "encoder", "decoder"]


class Vocabularies(Section):
    """Separate vocabularies for the two sides of an encoder-decoder."""

    source: PositiveInt
    """How many token ids the encoder reads."""
    target: PositiveInt
    """How many token ids the decoder reads and writes."""


class ModelSection(Section):
    """The model: its family, its sizes and the parts it is assembled from."""

    family: Family
    """encoder-decoder (text to text), encoder (text to vectors, tokens or classes) or decoder (continues a text)."""
    width: PositiveInt = Field(le=1_000_000)
    """How many numbers describe a token."""
    vocabulary: PositiveInt | Vocabularies | None = None
    """How many token ids there are; left out, the tokenizer of the data decides."""
    length: PositiveInt = Field(default=512, le=10_000_000)
    """The longest text the model is made for, in tokens."""
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """The share of numbers dropped in training, after every sublayer and after the embedding."""
    embedding: EmbeddingSlot | None = None
    """How token ids become vectors; left out, the installed default."""
    tie: Literal["none", "output", "inputs", "all"] = "output"
    """Which tables are one: output (target embedding and way back to tokens), inputs (source and target), all, none."""
    position: PositionSlot | None = None
    """How the model knows where a token stands, for stacks that name none of their own."""
    norm: NormSlot | None = None
    """How vectors are normalised, for stacks that name none of their own."""
    embedding_norm: bool = False
    """Whether token vectors are normalised before the first layer, positions included (BART, BERT)."""
    encoder: StackSlot | None = None
    """The stack that reads the source."""
    decoder: StackSlot | None = None
    """The stack that writes the target."""
    head: HeadSlot | None = None
    """What is read off the last layer; left out, the next token (or the masked ones)."""
    regularizers: list[RegularizerSlot] = Field(default_factory=list)
    """What shapes attention while the model is trained, such as [{use: entropy, strength: 0.01}]."""
    kept_heads: dict[str, list[NonNegativeInt]] | None = None
    """Which heads are left of attentions that have lost some, by where they are: {decoder.0.attention: [0, 3]}. Written
    by `kit prune`."""


class Recipe(Section):
    """One YAML file: a name and a model, with its data and its training where it is to be trained."""

    name: str = Field(min_length=1, max_length=100, pattern=r"^[\w][\w.-]*$")
    """What runs of this recipe are called."""
    description: str = ""
    """A sentence for people."""
    model: ModelSection
    """What is built."""
    tokenizer: TokenizerSlot | TokenizerPair | None = None
    """How text becomes tokens: one tokenizer, or {source: ..., target: ...} for the two sides of pairs."""
    data: DataSlot | None = None
    """What the model learns from."""
    training: TrainingSection | None = None
    """How the model is trained."""
    search: SearchSlot | None = None
    """How the trained model writes: at the end of training, in `kit predict` and in `kit evaluate`; left out, by the
    installed default. Measurements between, on validation examples, are made with that default, because it is quick."""

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from kit.showing import recipe_html

        return recipe_html(self, self.name)
