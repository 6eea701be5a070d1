"""Datasets of the Hugging Face `datasets` library: a folder that it saved, or a name on the hub."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Self, get_args, overload

from pydantic import model_validator

from kit import Data, DataError, Example, Options, Split, Task, digest_of
from kit_data.records import nested_value, quoted


class HuggingfaceOptions(Options):
    """Options of `huggingface`: `source` and `target`; `text` and `label`; or `text`, for language modeling."""

    use: Literal["huggingface"] = "huggingface"
    dataset: str
    """A folder written by `save_to_disk`, read from the recipe's folder, or a dataset's name on the hub."""
    configuration: str | None = None
    """The configuration of the dataset, if it has several."""
    source: str | None = None
    """The column of the source; a dot enters a nested column: `translation.en`."""
    target: str | None = None
    """The column of the target."""
    text: str | None = None
    """The column of the text."""
    label: str | None = None
    """The column of the class."""
    train: str = "train"
    """The dataset's name of the training split."""
    validation: str | None = "validation"
    """The dataset's name of the validation split, used if there is one."""
    test: str | None = "test"
    """The dataset's name of the test split, used if there is one."""

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
    """Rows of a dataset, memory-mapped from disk."""

    options_type = HuggingfaceOptions
    options: HuggingfaceOptions

    @property
    def task(self) -> Task:
        """The task, by the given columns."""
        return "pairs" if self.options.source else "labelled" if self.options.label else "text"

    def splits(self) -> tuple[Split, ...]:
        """The splits of the dataset."""
        dataset = self._load()
        return tuple(split for split in get_args(Split) if getattr(self.options, split) in dataset)

    def open(self, split: Split) -> Sequence[Example]:
        """The rows of a split."""
        dataset = self._load()
        name = getattr(self.options, split)
        if name not in dataset:
            raise DataError(f"no split {name!r} in the dataset {self.options.dataset}; there are: {quoted(dataset)}")
        rows = dataset[name]
        for column in filter(None, (self.options.source, self.options.target, self.options.text, self.options.label)):
            if column.split(".")[0] not in rows.column_names:
                found = quoted(rows.column_names)
                raise DataError(f"no column {column!r} in the dataset {self.options.dataset}; there are: {found}")
        return DatasetRows(rows, self.options)

    def fingerprint(self) -> str:
        """SHA-256 of the options and the fingerprints of the splits in `datasets`."""
        dataset = self._load()
        options = self.options.model_dump(mode="json", exclude={"dataset"})
        fingerprints = {split: dataset[getattr(self.options, split)]._fingerprint for split in self.splits()}
        return digest_of([options, fingerprints])

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
        except Exception as error:  # the library raises many types, its own and those of the network
            raise DataError(f"cannot load the dataset {name!r}: {error}") from error


class DatasetRows(Sequence[Example]):
    """Rows as examples; class ids are replaced by class names."""

    def __init__(self, rows: Any, options: HuggingfaceOptions) -> None:
        self.rows = rows
        self.options = options
        self.classes: list[str] | None = getattr(rows.features.get(options.label or ""), "names", None)

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
                return Example(nested_value(row, options.source), nested_value(row, options.target))
            text = nested_value(row, options.text or "")
            if not options.label:
                return Example(text)
            return Example(text, label=self._class_name(nested_value(row, options.label)))
        except ValueError as error:
            raise DataError(f"row {index} of the dataset {options.dataset}: {error}") from error

    def _class_name(self, label: str) -> str:
        """The name of a class id; splits with hidden labels have -1 in every row."""
        if self.classes is None:
            return label
        index = int(label)
        if not 0 <= index < len(self.classes):
            raise ValueError(
                f"its class in the column {self.options.label!r} is {index}, which means that it has none; wanted was "
                f"0 to {len(self.classes) - 1}\n    leave a split without classes out, such as test: null, or rows "
                "without one: dataset.filter(...).save_to_disk(folder)"
            )
        return self.classes[index]
