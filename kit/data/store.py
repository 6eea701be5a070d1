"""Token ids of many texts on disk, read through a memory map: one flat file of ids and one of offsets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from kit.data.errors import DataError


class TokenStore:
    """The ids of texts 0, 1, 2, …; can be pickled, since it holds a path and maps the files again."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name
        self._open()

    def _open(self) -> None:
        width = (self.folder / f"{self.name}.width").read_text()
        self.offsets: NDArray[np.int64] = np.memmap(self.folder / f"{self.name}.offsets", dtype=np.int64, mode="r")
        """Where each text starts in `ids`, and the end of the last."""
        file = self.folder / f"{self.name}.ids"
        kind = np.dtype(f"uint{width}")
        # An empty file cannot be mapped; a store of empty texts is still a store.
        self.ids: NDArray[Any] = np.memmap(file, dtype=kind, mode="r") if file.stat().st_size else np.zeros(0, kind)
        """The ids of all texts, one after another."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> NDArray[np.int64]:
        if not 0 <= index < len(self):
            raise IndexError(index)
        return np.asarray(self.ids[self.offsets[index] : self.offsets[index + 1]], dtype=np.int64)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How many ids each text has."""
        return np.diff(self.offsets)

    def __getstate__(self) -> dict[str, Any]:
        return {"folder": self.folder, "name": self.name}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()


class StoreWriter:
    """Writes a store text by text; used as a context manager."""

    def __init__(self, folder: Path, name: str, vocabulary: int) -> None:
        width = 16 if vocabulary <= 1 << 16 else 32
        self._kind = np.dtype(f"uint{width}")
        (folder / f"{name}.width").write_text(str(width))
        self._files: tuple[BinaryIO, BinaryIO] = (
            (folder / f"{name}.ids").open("wb"),
            (folder / f"{name}.offsets").open("wb"),
        )
        self._end = 0
        self._vocabulary = vocabulary

    def __enter__(self) -> StoreWriter:
        self._mark()
        return self

    def _mark(self) -> None:
        self._files[1].write(self._end.to_bytes(8, "little"))

    def write(self, ids: Sequence[int]) -> None:
        """More ids of the text that is being written."""
        values = np.asarray(ids, dtype=np.int64)
        if len(values) and not 0 <= values.min() <= values.max() < self._vocabulary:
            raise DataError(
                f"a tokenizer gave the id {values.max()}; it says it has {self._vocabulary}, numbered from 0"
            )
        self._files[0].write(values.astype(self._kind).tobytes())
        self._end += len(values)

    def close_text(self) -> None:
        """The text that is being written ends here."""
        self._mark()

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            file.close()
