"""Trials of a search in Optuna's storage: proposals, the process that has claimed each trial, and results.

A proposal depends on the seed, the number of the trial and the trials before it. The results of a trial are stored with
it, so that a machine that shares the storage but no folder can show them.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kit import KitError, RecipeError
from kit_study.cells import Combination
from kit_study.process_ids import has_ended, process_id
from kit_study.sections import RangeSection, SearchSection, label_of
from kit_study.study_file import TRIAL

if TYPE_CHECKING:
    import optuna

    from kit_study.planning import Plan

HOLDER = "holder"
"""The trial attribute with the process that has claimed it."""
TROUBLE = "trouble"
"""The trial attribute with the error message of a failure."""
RESULTS = "results"
"""The trial attribute with the result of each seed."""
LARGE_KEYS = ("series", "curves")
"""Keys of a result that are too large for a database."""
MAX_ATTEMPTS = 5
"""The most attempts to open a storage: of machines that create its tables concurrently all but one fail."""
ABANDONED_AFTER = 5.0
"""Seconds after which a running trial that no process has claimed counts as abandoned."""


class Trials:
    """The trials of one search, which a process claims one after another."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.section = search_section(plan)
        self.study = open_storage(plan)
        self.max_trials = plan.study.section.quick.trials if plan.study.quick else self.section.trials
        self._states: Any = optuna_library().trial.TrialState
        self._first_seen: dict[int, float] = {}

    def claim(self) -> optuna.Trial | None:
        """Claims an interrupted trial or a new one; None if the wanted number exists."""
        while True:
            trial = self._interrupted() or self._new_trial()
            if trial is not None:
                trial.set_user_attr(HOLDER, process_id())
                return trial
            if not self._has_unclaimed():
                return None
            time.sleep(ABANDONED_AFTER / 10)  # a new trial: its process will claim it soon, or has died

    def propose(self, trial: optuna.Trial) -> Combination:
        """Proposes the values of a trial; a resumed trial keeps its values."""
        changes = {}
        for number, (path, where) in enumerate(self.section.space.items()):
            # A seed for each value, so that a trial interrupted between two values continues identically.
            seed = self.section.seed + trial.number * len(self.section.space) + number
            self.study.sampler = optuna_library().samplers.TPESampler(seed=seed)
            changes[path] = _suggest(trial, path, where)
        return _combination(self.plan, trial.number, changes)

    def complete(self, trial: optuna.Trial, value: float, results: Mapping[int, Mapping[str, Any]]) -> None:
        """Stores the results of a trial."""
        stored = {
            str(seed): {key: item for key, item in result.items() if key not in LARGE_KEYS}
            for seed, result in results.items()
        }
        trial.set_user_attr(RESULTS, stored)
        self.study.tell(trial, value, skip_if_finished=True)

    def fail(self, trial: optuna.Trial, why: str) -> None:
        """Stores the failure of a trial."""
        trial.set_user_attr(TROUBLE, why)
        self.study.tell(trial, state=self._states.FAIL, skip_if_finished=True)

    def _new_trial(self) -> optuna.Trial | None:
        if self._count() >= self.max_trials:
            return None
        trial = self.study.ask()
        if trial.number >= self.max_trials:  # another machine asked at the same time, and this is one too many
            self.fail(trial, "one more than was wanted")
            return None
        return trial

    def _count(self) -> int:
        return sum(trial.state != self._states.WAITING for trial in self.study.get_trials(deepcopy=False))

    def _interrupted(self) -> optuna.Trial | None:
        """Finds a running trial whose process on this machine has ended, or that no process has claimed."""
        for frozen in self._running():
            holder = frozen.user_attrs.get(HOLDER)
            abandoned = has_ended(str(holder)) if holder else self._is_abandoned(frozen.number)
            if abandoned:
                found: optuna.Trial = optuna_library().trial.Trial(self.study, frozen._trial_id)
                return found
        return None

    def _is_abandoned(self, number: int) -> bool:
        """Whether a trial was unclaimed for too long, by the clock of this machine, since clocks may differ."""
        return time.monotonic() - self._first_seen.setdefault(number, time.monotonic()) > ABANDONED_AFTER

    def _has_unclaimed(self) -> bool:
        return any(HOLDER not in frozen.user_attrs for frozen in self._running())

    def _running(self) -> list[optuna.trial.FrozenTrial]:
        return self.study.get_trials(deepcopy=False, states=(self._states.RUNNING,))


def open_storage(plan: Plan) -> optuna.Study:
    """Opens the Optuna study in its storage; creates it if needed."""
    library = optuna_library()
    plan.folder.mkdir(parents=True, exist_ok=True)
    storage: Any = search_section(plan).storage
    if storage is None:
        journal = import_module("optuna.storages.journal")
        storage = library.storages.JournalStorage(journal.JournalFileBackend(str(plan.folder / "trials.log")))
    for left in reversed(range(MAX_ATTEMPTS)):
        try:
            found: optuna.Study = library.create_study(
                study_name=plan.study.name,
                storage=storage,
                load_if_exists=True,
                direction="maximize" if plan.higher else "minimize",
            )
        except (library.exceptions.StorageInternalError, *_database_errors()) as error:
            if not left:
                raise KitError(
                    f"search.storage cannot be opened: {str(error).splitlines()[0]}\n"
                    "    start the database, mend its address, or leave storage out for a journal in the study's folder"
                ) from None
            time.sleep(0.1 + random.random())
        else:
            return found
    raise AssertionError


def _database_errors() -> tuple[type[Exception], ...]:
    try:
        errors: type[Exception] = import_module("sqlalchemy.exc").SQLAlchemyError
    except ImportError:
        return ()
    return (errors,)


def all_trials(plan: Plan) -> list[Combination]:
    """Returns all trials with a valid recipe, in order, with results from other machines."""
    space, found = search_section(plan).space, []
    for trial in open_storage(plan).get_trials():
        if not all(path in trial.params and _is_known(trial.params[path], where) for path, where in space.items()):
            continue  # interrupted before all values were proposed, or of another search space
        changes = {path: _value(trial.params[path], where) for path, where in space.items()}
        results = {int(seed): {**result, "series": [], "curves": {}} for seed, result in _results(trial).items()}
        each = _combination(plan, trial.number, changes, results, trial.user_attrs.get(TROUBLE))
        try:
            each.recipe(plan.study, plan.kit)
        except RecipeError:
            continue  # an invalid recipe; the storage holds the reason
        found.append(each)
    return found


def search_section(plan: Plan) -> SearchSection:
    """Returns the search section of a study."""
    section = plan.study.section.search
    assert section is not None
    return section


def optuna_library() -> Any:
    """Returns the optuna module with warnings only; KitError where it is not installed."""
    try:
        library = import_module("optuna")
    except ImportError as error:
        raise KitError("a search needs Optuna: pip install 'kitformer[study]'") from error
    library.logging.set_verbosity(library.logging.WARNING)
    return library


def _results(trial: optuna.trial.FrozenTrial) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = trial.user_attrs.get(RESULTS, {})
    return found


def _combination(
    plan: Plan,
    number: int,
    changes: Mapping[str, Any],
    known: Mapping[int, dict[str, Any]] | None = None,
    failure: str | None = None,
) -> Combination:
    values = ", ".join(f"{path.rpartition('.')[2]} {label_of(value)}" for path, value in changes.items())
    return Combination({TRIAL: f"{number}: {values}"}, changes, plan.study.section, known=known or {}, failure=failure)


def _suggest(trial: optuna.Trial, path: str, where: RangeSection) -> Any:
    if where.choices is not None:
        return _value(trial.suggest_categorical(path, [label_of(choice) for choice in where.choices]), where)
    assert where.low is not None and where.high is not None
    if where.whole:
        return trial.suggest_int(path, int(where.low), int(where.high), log=where.log)
    return trial.suggest_float(path, where.low, where.high, log=where.log)


def _is_known(stored: Any, where: RangeSection) -> bool:
    return where.choices is None or stored in [label_of(choice) for choice in where.choices]


def _value(stored: Any, where: RangeSection) -> Any:
    """Returns the value of a stored parameter: a choice by its label, or the number itself."""
    if where.choices is None:
        return stored
    return where.choices[[label_of(choice) for choice in where.choices].index(str(stored))]
