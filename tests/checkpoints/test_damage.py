"""Every corruption of a checkpoint is noticed, named, and answered with the checkpoint before."""

from __future__ import annotations

import os
import pickle
import random
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from kit.checkpoints.contents import Snapshot
from kit.checkpoints.manifest import write_manifest
from kit.checkpoints.store import CheckpointStore
from kit.errors import KitError
from kit.files.atomic import CheckpointError, DamagedCheckpoint, DamagedCheckpointWarning

from .samples import any_store, is_complete, state

Damage = Callable[[Path, Path, random.Random], str]


def a_part(folder: Path, chance: random.Random) -> Path:
    return chance.choice(sorted(folder.iterdir()))


def truncated(newest: Path, before: Path, chance: random.Random) -> str:
    part = a_part(newest, chance)
    os.truncate(part, chance.randrange(part.stat().st_size))
    return part.name


def bit_flipped(newest: Path, before: Path, chance: random.Random) -> str:
    part = a_part(newest, chance)
    data = bytearray(part.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    part.write_bytes(data)
    return part.name


def missing(newest: Path, before: Path, chance: random.Random) -> str:
    part = a_part(newest, chance)
    part.unlink()
    return part.name


def manifest_altered(newest: Path, before: Path, chance: random.Random) -> str:
    text = (newest / "manifest.json").read_text()
    places = [place for place, letter in enumerate(text) if letter.isdigit()]
    place = chance.choice(places)
    (newest / "manifest.json").write_text(text[:place] + str((int(text[place]) + 1) % 10) + text[place + 1 :])
    return "manifest.json"


def part_swapped(newest: Path, before: Path, chance: random.Random) -> str:
    names = [part.name for part in sorted(newest.iterdir()) if part.read_bytes() != (before / part.name).read_bytes()]
    name = chance.choice(names)
    shutil.copy(before / name, newest / name)
    return ""


def folder_swapped(newest: Path, before: Path, chance: random.Random) -> str:
    shutil.rmtree(newest)
    shutil.copytree(before, newest)
    return "step 1"


def grown(newest: Path, before: Path, chance: random.Random) -> str:
    part = a_part(newest, chance)
    with open(part, "ab") as file:
        file.write(chance.randbytes(chance.randrange(1, 9)))
    return part.name


DAMAGES: list[Damage] = [truncated, bit_flipped, missing, manifest_altered, part_swapped, folder_swapped, grown]


def saved_twice(folder: Path) -> CheckpointStore:
    store = any_store(folder, run="a run")
    store.save(1, state(1, size=8))
    store.save(2, state(2, size=8))
    return store


def corrupt_many(tmp_path: Path, times: int) -> None:
    saved_twice(tmp_path / "good")
    chance = random.Random(7)
    for number in range(times):
        shutil.copytree(tmp_path / "good", tmp_path / "bad")
        store = any_store(tmp_path / "bad", run="a run")
        damage = DAMAGES[number % len(DAMAGES)]
        word = damage(tmp_path / "bad" / "step-00000002", tmp_path / "bad" / "step-00000001", chance)
        with pytest.warns(DamagedCheckpointWarning) as caught:
            checkpoint = store.load_latest()
        text = str(caught[0].message)
        assert checkpoint.step == 1 and is_complete(checkpoint, size=8), f"{number}: {damage.__name__}"
        assert "step-00000002 is damaged" in text and word in text and "Going on from step-00000001" in text
        shutil.rmtree(tmp_path / "bad")


def test_100_corruptions_are_noticed(tmp_path: Path) -> None:
    corrupt_many(tmp_path, 100)


@pytest.mark.slow
def test_500_corruptions_are_noticed(tmp_path: Path) -> None:
    corrupt_many(tmp_path, 500)


def test_every_bit_of_a_manifest_counts(tmp_path: Path) -> None:
    store = saved_twice(tmp_path)
    path = tmp_path / "step-00000002" / "manifest.json"
    good = path.read_bytes()
    for place in range(len(good)):
        path.write_bytes(good[:place] + bytes([good[place] ^ (1 << (place % 8))]) + good[place + 1 :])
        with pytest.raises(DamagedCheckpoint):
            store.load(2)
    path.write_bytes(good)
    assert store.load(2).step == 2


def test_good_checkpoints_load_without_a_word(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert saved_twice(tmp_path).load_latest().step == 2


@pytest.mark.parametrize("text", [None, "", "step-00000009 " + "0" * 64 + "\n", "step-00000001 " + "0" * 64 + "\n"])
def test_a_wrong_latest_is_named_and_the_newest_is_used(tmp_path: Path, text: str | None) -> None:
    store = saved_twice(tmp_path)
    (tmp_path / "latest").unlink() if text is None else (tmp_path / "latest").write_text(text)
    with pytest.warns(DamagedCheckpointWarning, match="latest"):
        assert store.load_latest().step == 2


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    store = saved_twice(tmp_path / "one")
    any_store(tmp_path / "two", run="another").save(2, state(2, size=8))
    shutil.rmtree(tmp_path / "one" / "step-00000002")
    shutil.copytree(tmp_path / "two" / "step-00000002", tmp_path / "one" / "step-00000002")
    with pytest.warns(DamagedCheckpointWarning, match="another run"):
        assert store.load_latest().step == 1


def test_nothing_good_is_an_error_that_names_each(tmp_path: Path) -> None:
    store = saved_twice(tmp_path)
    for step in (1, 2):
        (tmp_path / f"step-0000000{step}" / "weights.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"step-00000002 is damaged: weights.*step-00000001 is damaged: weights"):
        store.load_latest()
    with pytest.raises(CheckpointError, match="before its first"):
        any_store(tmp_path / "empty").load_latest()
    with pytest.raises(CheckpointError, match="there are: 1, 2"):
        store.load(3)


class Malicious:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return (os.mkdir, (str(self.target),))


@pytest.mark.parametrize("form", ["pickle", "torch"])
@pytest.mark.parametrize("honest", [False, True], ids=["manifest kept", "manifest made to fit"])
def test_a_malicious_pickle_in_place_of_any_part_does_not_run(tmp_path: Path, form: str, honest: bool) -> None:
    proof = tmp_path / "executed"
    names = sorted(part.name for part in (saved_twice(tmp_path / "names").folder / "step-00000002").iterdir())
    for name in names:
        folder = tmp_path / name
        store = any_store(folder)
        store.save(2, Snapshot({}, {}, own={}))
        path = folder / "step-00000002" / name
        if form == "pickle":
            path.write_bytes(pickle.dumps(Malicious(proof)))
        else:
            torch.save({"weights": Malicious(proof)}, path)
        if honest and name != "manifest.json":
            (path.parent / "manifest.json").unlink()
            write_manifest(path.parent, step=2, sequence=1, score=None, world=1, run="")
        with pytest.raises(KitError):
            store.load_latest()
        assert not proof.exists()
    pickle.loads(pickle.dumps(Malicious(proof)))
    assert proof.exists()  # the pickle does run where something unpickles it
