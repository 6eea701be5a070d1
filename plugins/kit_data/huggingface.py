"""Datasets of the `datasets` library: a folder that it saved, or a name on the Hugging Face hub."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Self, get_args, overload

from pydantic import model_validator

from kit import Data, DataError, Example, Options, Split, Task, digest_of
from kit_data.records import pick


class HuggingfaceOptions(Options):
    """Options of `huggingface`: `source` and `target` for pairs, `text` and `label` for classes, `text` for texts."""

    use: Literal["huggingface"] = "huggingface"
    dataset: str
    """A folder written by `save_to_disk`, read from the recipe's folder, or a dataset's name on the hub."""
    configuration: str | None = None
    """Which configuration of the dataset, where it has several."""
    source: str | None = None
    """The column of the source; a dot goes inside: `translation.en`."""
    target: str | None = None
    """The column of the target."""
    text: str | None = None
    """The column of the text."""
    label: str | None = None
    """The column of the class."""
    train: str = "train"
    """What the dataset calls the training split."""
    validation: str | None = "validation"
    """What it calls the validation split; taken if it is there."""
    test: str | None = "test"
    """What it calls the test split; taken if it is there."""

    @model_validator(mode="after")
    def _one_task(self) -> Self:
        given = {name for name in ("source", "target", "text", "label") if getattr(self, name) is not None}
        if given not in ({"source", "target"}, {"text", "label"}, {"text"}):
            found = ", ".join(sorted(given)) or "none"
            raise ValueError(
                f"columns for source and target, for text and label, or for text were wanted; found: {found}"
            )
        return self


class HuggingfaceData(Data):
    """Rows of a dataset; the library keeps them on disk."""

    options_type = HuggingfaceOptions
    options: HuggingfaceOptions

    @property
    def task(self) -> Task:
        """As the columns say."""
        return "pairs" if self.options.source else "labelled" if self.options.label else "text"

    def splits(self) -> tuple[Split, ...]:
        """Those that the dataset has."""
        there = self._load()
        return tuple(split for split in get_args(Split) if getattr(self.options, split) in there)

    def open(self, split: Split) -> Sequence[Example]:
        """The rows of a split."""
        there = self._load()
        name = getattr(self.options, split)
        if name not in there:
            raise DataError(f"no split {name!r} in the dataset {self.options.dataset}; there are: {', '.join(there)}")
        rows = there[name]
        for column in filter(None, (self.options.source, self.options.target, self.options.text, self.options.label)):
            if column.split(".")[0] not in rows.column_names:
                found = ", ".join(rows.column_names)
                raise DataError(f"no column {column!r} in the dataset {self.options.dataset}; there are: {found}")
        return DatasetRows(rows, self.options)

    def fingerprint(self) -> str:
        """Of the options and the library's own fingerprints of its tables."""
        there = self._load()
        options = self.options.model_dump(mode="json", exclude={"dataset"})
        tables = {split: there[getattr(self.options, split)]._fingerprint for split in self.splits()}
        return digest_of([options, tables])

    def _load(self) -> Mapping[str, Any]:
        try:
            datasets = import_module("datasets")
        except ImportError as error:
            raise DataError(
                "the `datasets` library is not installed", hint="install it: pip install 'kitformer[huggingface]'"
            ) from error
        name = self.options.dataset
        for folder in ((self.folder or Path()) / name, Path(name)):
            if (folder / "dataset_dict.json").is_file():
                return dict(datasets.load_from_disk(str(folder)))
            if (folder / "state.json").is_file():
                return {self.options.train: datasets.load_from_disk(str(folder))}
        try:
            return dict(datasets.load_dataset(name, self.options.configuration))
        except Exception as error:  # the library raises many kinds, its own and those of the network
            raise DataError(f"cannot load the dataset {name!r}: {error}") from error


class DatasetRows(Sequence[Example]):
    """Rows as examples; class numbers are given their names."""

    def __init__(self, rows: Any, options: HuggingfaceOptions) -> None:
        self.rows = rows
        self.options = options
        self.names: list[str] | None = getattr(rows.features.get(options.label or ""), "names", None)

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> Example: ...
    @overload
    def __getitem__(self, index: slice) -> list[Example]: ...
    def __getitem__(self, index: int | slice) -> Example | list[Example]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        row = self.rows[index]
        options = self.options
        try:
            if options.source and options.target:
                return Example(pick(row, options.source), pick(row, options.target))
            text = pick(row, options.text or "")
            if not options.label:
                return Example(text)
            return Example(text, label=self._name(pick(row, options.label)))
        except ValueError as error:
            raise DataError(f"row {index} of the dataset {options.dataset}: {error}") from error

    def _name(self, label: str) -> str:
        """The name of a class. Test splits that keep their classes to themselves have -1 in every row."""
        if self.names is None:
            return label
        number = int(label)
        if not 0 <= number < len(self.names):
            raise ValueError(
                f"its class in the column {self.options.label!r} is {number}, which means that it has none; wanted was "
                f"0 to {len(self.names) - 1}\n    leave a split without classes out, such as test: null, or rows "
                "without one: dataset.filter(...).save_to_disk(folder)"
            )
        return self.names[number]
