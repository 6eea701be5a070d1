"""What a store keeps, what it says when a disk is full, and how several processes save together."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from kit.checkpoints.contents import Snapshot
from kit.checkpoints.store import CheckpointStore, Ranks, Retention
from kit.errors import KitError
from kit.files import atomic, atomic_folder
from kit.files.atomic import StorageError
from kit.files.tensors import read_tensors, replace_tensors

from .samples import any_store, is_complete, state


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


def test_the_last_and_the_best_are_kept(tmp_path: Path) -> None:
    store = any_store(tmp_path, retention=Retention(last=2, best=1))
    for step, score in enumerate([5.0, 1.0, 3.0, float("nan"), 2.0, 4.0], start=1):
        store.save(step, state(step), score=score)
    assert store.steps() == [2, 5, 6]
    assert store.best() == 2
    store.retention = Retention(last=1, best=1, lower_is_better=False)
    store.save(7, state(7))
    assert store.steps() == [6, 7] and store.best() == 6
    assert not leftovers(tmp_path)


def test_regular_ones_are_not_pushed_out_by_those_in_between(tmp_path: Path) -> None:
    store = any_store(tmp_path, retention=Retention(last=2, regular=3, every=100))
    for step in (100, 200, 300, 350, 370, 390):
        store.save(step, state(step))
    assert store.steps() == [100, 200, 300, 370, 390]
    store.save(400, state(400))
    assert store.steps() == [200, 300, 390, 400]


def test_going_back_to_an_earlier_step_makes_that_the_newest(tmp_path: Path) -> None:
    store = any_store(tmp_path, retention=Retention(last=2))
    for step in (100, 200, 300):
        store.save(step, state(step))
    store.save(250, state(250))
    assert store.load_latest().step == 250
    assert store.steps() == [250, 300]


def test_a_step_that_is_saved_again_is_replaced(tmp_path: Path) -> None:
    store = any_store(tmp_path)
    store.save(1, Snapshot({"a": torch.zeros(2)}))
    store.save(1, Snapshot({"a": torch.ones(2)}))
    assert torch.equal(store.load_latest().weights["a"], torch.ones(2))
    assert store.steps() == [1] and not leftovers(tmp_path)


def test_a_replacement_that_was_cut_short_gives_the_old_one_back(tmp_path: Path) -> None:
    store = any_store(tmp_path)
    store.save(1, state(1))
    (tmp_path / "step-00000001").rename(tmp_path / ".replaced-step-00000001")
    with pytest.warns(UserWarning, match="latest"):
        assert is_complete(store.load_latest())
    store.tidy()
    assert store.steps() == [1] and is_complete(store.load_latest())


def test_loading_writes_nothing(tmp_path: Path) -> None:
    store = any_store(tmp_path)
    store.save(1, state(1))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    store.load_latest()
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}


@pytest.mark.parametrize("reason", [(errno.ENOSPC, "the disk is full"), (errno.EROFS, "read-only")], ids=str)
@pytest.mark.parametrize("call", ["fsync", "rename", "replace", "mkdir"])
def test_a_save_that_the_system_refuses_is_loud_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: tuple[int, str], call: str
) -> None:
    number, words = reason
    store = any_store(tmp_path / "checkpoints")
    store.save(1, state(1))

    def refuse(*arguments: Any, **named: Any) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(os, call, refuse)
        with pytest.raises(StorageError, match=words) as caught:
            store.save(2, state(2))
    assert isinstance(caught.value, KitError)
    assert is_complete(store.load(1))
    assert not leftovers(tmp_path / "checkpoints")
    store.save(3, state(3))
    assert store.load_latest().step == 3


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)], capture_output=True)
    if mount.returncode != 0:
        pytest.skip("a small file system cannot be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def save_many(store: CheckpointStore) -> None:
    store.retention = Retention(last=20)
    for step in range(2, 20):
        store.save(step, state(step))


def test_a_full_disk(small_disk: Path) -> None:
    store = any_store(small_disk / "checkpoints")
    store.save(1, state(1))
    with pytest.raises(StorageError, match=r"the disk is full.*step-0000000[1-9], is intact"):
        save_many(store)
    newest = store.load_latest()
    assert newest.step >= 1 and is_complete(newest)
    assert is_complete(store.load(1)) and not leftovers(small_disk / "checkpoints")


def test_a_read_only_disk(small_disk: Path) -> None:
    store = any_store(small_disk / "checkpoints")
    store.save(1, state(1))
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(StorageError, match=r"read-only.*step-00000001, is intact"):
        store.save(2, state(2))
    assert is_complete(store.load_latest())


def test_a_single_file_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "recipe.yaml"
    atomic.write_text(target, "old")

    def refuse(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", refuse)
        with pytest.raises(StorageError, match=r"recipe.yaml.*disk is full.*unchanged"):
            atomic.write_text(target, "new")
    assert target.read_text() == "old" and os.listdir(tmp_path) == ["recipe.yaml"]
    atomic.write_text(target, "new")
    assert target.read_text() == "new"


def test_a_process_that_fails_stops_the_save_for_all(tmp_path: Path) -> None:
    """Seen from the first process: the second says at the second meeting that its part was not written."""
    any_store(tmp_path).save(1, state(1))
    answers = iter([True, False])
    store = any_store(tmp_path, ranks=Ranks(0, 2, lambda done: next(answers)))
    with pytest.raises(StorageError, match=r"another process failed.*step-00000001, is intact"):
        store.save(2, state(2))
    assert any_store(tmp_path).load_latest().step == 1 and not leftovers(tmp_path)


def test_leftovers_of_other_names_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".saving-a").mkdir()
    (tmp_path / ".saving-b").mkdir()
    atomic_folder.begin(tmp_path / "a")
    atomic_folder.tidy(tmp_path, "a")
    assert leftovers(tmp_path) == [".saving-b"]


def test_finished_weights_are_replaced_whole(tmp_path: Path) -> None:
    replace_tensors(tmp_path / "weights.safetensors", {"a": torch.zeros(2)})
    replace_tensors(tmp_path / "weights.safetensors", {"a": torch.ones(2)})
    assert torch.equal(read_tensors(tmp_path / "weights.safetensors")["a"], torch.ones(2))
    with pytest.raises(KitError):
        replace_tensors(tmp_path / "weights.safetensors", {"a": torch.empty(2, device="meta")})
    assert torch.equal(read_tensors(tmp_path / "weights.safetensors")["a"], torch.ones(2))
    assert not leftovers(tmp_path)
