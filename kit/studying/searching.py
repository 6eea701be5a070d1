"""Search in place of a grid: Optuna proposes trials, its storage lets machines share them, each trial is a cell.

A proposal depends on the seed, the number of the trial and the trials before it; a trial that a kill cut short on this
machine is taken up again, with the values it had.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kit.errors import KitError
from kit.studying.cells import Cell, Combination, cell_of, write_cell
from kit.studying.conducting import Say
from kit.studying.planning import Plan, result_of
from kit.studying.reading import TRIAL
from kit.studying.sections import RangeSection, SearchSection, label_of
from kit.studying.workers import Workers

if TYPE_CHECKING:
    import optuna

HOLDER = "holder"
"""Says which process is at a trial."""


def search(plan: Plan, *, without: Sequence[str] = (), say: Say | None = None) -> int:
    """Run trials until the storage holds as many as are wanted; gives how many cells failed."""
    asked = plan.study.section.search
    assert asked is not None
    say = say or (lambda text: None)
    library = _optuna()
    wanted = plan.study.section.quick.trials if plan.study.quick else asked.trials
    study = opened(plan)
    failed = 0
    while True:
        trial = _cut_short(study) or _next(study, wanted, asked, library)
        if trial is None:
            return failed
        trial.set_user_attr(HOLDER, f"{socket.gethostname()} {os.getpid()}")
        cells = _cells(plan, asked, trial)
        values = _run(plan, cells, without)
        shown = cells[0].combination.title
        if values is None:
            failed += 1
            say(f"trial {shown}  FAILED; see {cells[0].folder}")
            study.tell(trial, state=library.trial.TrialState.FAIL)
            continue
        mean = sum(values) / len(values)
        study.tell(trial, mean)
        say(f"trial {shown}  {plan.study.section.metric} {mean:.4g} on validation")


def opened(plan: Plan) -> optuna.Study:
    """The study in its storage; made where it is not there yet."""
    library = _optuna()
    asked = plan.study.section.search
    assert asked is not None
    plan.folder.mkdir(parents=True, exist_ok=True)
    storage: Any = asked.storage
    if storage is None:
        journal = import_module("optuna.storages.journal")
        storage = library.storages.JournalStorage(journal.JournalFileBackend(str(plan.folder / "trials.log")))
    found: optuna.Study = library.create_study(
        study_name=plan.study.name,
        storage=storage,
        load_if_exists=True,
        direction="maximize" if plan.higher else "minimize",
    )
    return found


def tried(plan: Plan) -> list[Combination]:
    """Every trial that was begun, in order."""
    asked = plan.study.section.search
    assert asked is not None
    return [_combination(plan, asked, trial) for trial in opened(plan).get_trials() if trial.params]


def _combination(plan: Plan, asked: SearchSection, trial: Any) -> Combination:
    changes = {path: _suggested(trial, path, where) for path, where in asked.space.items()}
    values = ", ".join(f"{path.rpartition('.')[2]} {label_of(value)}" for path, value in changes.items())
    return Combination({TRIAL: f"{trial.number}: {values}"}, changes, plan.study.section)


def _next(study: optuna.Study, wanted: int, asked: SearchSection, library: Any) -> optuna.Trial | None:
    states = (library.trial.TrialState.COMPLETE, library.trial.TrialState.RUNNING, library.trial.TrialState.FAIL)
    count = len(study.get_trials(states=states))
    if count >= wanted:
        return None
    study.sampler = library.samplers.TPESampler(seed=asked.seed + count)
    return study.ask()


def _cut_short(study: optuna.Study) -> optuna.Trial | None:
    """A trial that a process of this machine was at which is no longer there."""
    library = _optuna()
    for frozen in study.get_trials(states=(library.trial.TrialState.RUNNING,)):
        host, _, process = str(frozen.user_attrs.get(HOLDER, "")).rpartition(" ")
        if host == socket.gethostname() and not Path(f"/proc/{process}").exists():
            found: optuna.Trial = library.trial.Trial(study, frozen._trial_id)
            return found
    return None


def _cells(plan: Plan, asked: SearchSection, trial: optuna.Trial) -> list[Cell]:
    each = _combination(plan, asked, trial)
    return [cell_of(plan.study, plan.kit, each, seed, plan.root) for seed in plan.study.seeds]


def _suggested(trial: Any, path: str, where: RangeSection) -> Any:
    if where.choices is not None:
        labels = [label_of(choice) for choice in where.choices]
        return where.choices[labels.index(str(trial.suggest_categorical(path, labels)))]
    assert where.low is not None and where.high is not None
    if where.whole:
        return trial.suggest_int(path, int(where.low), int(where.high), log=where.log)
    return trial.suggest_float(path, where.low, where.high, log=where.log)


def _run(plan: Plan, cells: list[Cell], without: Sequence[str]) -> list[float] | None:
    """The figure of each seed on validation; None where one failed."""
    left = [cell for cell in cells if result_of(cell) is None]
    for cell in left:
        write_cell(cell, plan.study, plan.kit)
    Workers(1, without).run([cell.folder for cell in left], lambda folder, trouble: None)
    results = [result_of(cell) for cell in cells]
    metric = plan.study.section.metric
    name = metric if "." in metric else f"validation_{metric}"
    if any(result is None or name not in result["figures"] for result in results):
        return None
    return [float(result["figures"][name]) for result in results if result is not None]


def _optuna() -> Any:
    try:
        library = import_module("optuna")
    except ImportError as error:
        raise KitError("a search needs Optuna: pip install 'kitformer[study]'") from error
    library.logging.set_verbosity(library.logging.WARNING)
    return library
