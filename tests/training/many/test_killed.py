"""Whatever is killed whenever: `kit resume` goes on, and every later loss is the same to the last bit."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest
from processes.training_processes import Place, losses

pytestmark = pytest.mark.xdist_group("many")
DROPOUT = "model.dropout=0.1"
COLUMNS = ("gradient_norm", "objective", "tokens", "learning_rate", "validation_loss")
WHO = ("process 0", "process 1", "everything")


def kill(place: Place, who: str, chance: random.Random, *arguments: str) -> bool:
    """Start a training and kill some of it at a random point; says whether there was anything left to kill."""
    command = place.start(*arguments)
    run = place.folder / "runs" / "tiny" / "1" / "metrics.csv"
    done = len(run.read_bytes().splitlines()) if run.is_file() else 0
    place.wait_for_step(min(49, max(0, done - 6) + chance.randint(1, 25)), command)
    time.sleep(chance.random() * 0.2)
    ranks = command.ranks()
    if who == "everything" or not ranks:
        alive = command.process.poll() is None
        command.kill_all()
        command.end()
        return alive
    victim = ranks.get(int(who[-1]))
    if victim is None:
        command.kill_all()
        command.end()
        return False
    os.kill(victim.pid, signal.SIGKILL)
    code, text = command.end(within=60)
    if code == 0:  # it was over before the kill came
        return False
    assert code == 128 + signal.SIGKILL, text
    assert f"{who} was ended by SIGKILL" in text
    return True


def chain(place: Place, processes: int, kills: int, workers: int | None, seed: int) -> tuple[Path, int]:
    """One run, killed again and again, and then left to finish."""
    chance = random.Random(seed)
    size = f"training.devices={processes}"
    done = 0
    for number in range(kills):
        lanes = f"training.workers={number % 3 if workers is None else workers}"
        begun = (place.folder / "runs" / "tiny" / "1" / "recipe.yaml").is_file()
        what = ["resume", "tiny", lanes] if begun else ["train", "tiny.yaml", DROPOUT, size, lanes]
        who = "everything" if processes == 1 else WHO[(number + seed) % len(WHO)]
        done += kill(place, who, chance, *what)
    run = place.folder / "runs" / "tiny" / "1"
    last = ["resume", "tiny"] if (run / "recipe.yaml").is_file() else ["train", "tiny.yaml", DROPOUT, size]
    code, text = place.start(*last, f"training.workers={workers or 0}").end()
    assert code == 0, text
    return run, done


@pytest.fixture(scope="session")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[str]]:
    """What one and two processes come to when nobody kills them."""
    found = {}
    for processes in (1, 2):
        place = Place(tmp_path_factory.mktemp("uninterrupted") / "place")
        found[processes] = losses(place.run("train", "tiny.yaml", DROPOUT, f"training.devices={processes}"), *COLUMNS)
    return found


@pytest.mark.parametrize(("processes", "kills"), [(1, 2), (2, 2)])
def test_killed_at_random_points(place: Place, uninterrupted: dict[int, list[str]], processes: int, kills: int):
    run, done = chain(place, processes, kills, None, seed=processes)
    assert done == kills
    assert losses(run, *COLUMNS) == uninterrupted[processes]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("processes", [1, 2])
def test_killed_a_hundred_times(place: Place, uninterrupted: dict[int, list[str]], processes: int, workers: int):
    """A hundred in all, over the six."""
    wanted, done, seed = 17, 0, 0
    while done < wanted:
        run, killed = chain(
            place, processes, min(4, wanted - done), workers, seed=1000 * processes + 100 * workers + seed
        )
        assert losses(run, *COLUMNS) == uninterrupted[processes]
        done, seed = done + killed, seed + 1
        shutil.rmtree(place.folder / "runs")
