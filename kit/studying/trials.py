"""Trials of a search in Optuna's storage: which there are, who is at them, and what came of them.

A proposal depends on the seed, the number of the trial and the trials before it. What came of a trial is kept with it,
so that a machine that shares the storage and no folder can show it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kit.errors import KitError, RecipeError
from kit.studying.cells import Combination
from kit.studying.holders import is_gone, this_process
from kit.studying.reading import TRIAL
from kit.studying.sections import RangeSection, SearchSection, label_of

if TYPE_CHECKING:
    import optuna

    from kit.studying.planning import Plan

HOLDER = "holder"
"""Says which process is at a trial."""
TROUBLE = "trouble"
"""Says why a trial failed."""
RESULTS = "results"
"""Holds what came of each seed."""
LEFT_OUT = ("series", "curves")
"""What results hold besides figures and costs; a database is not for that."""
OPENINGS = 5
"""How often a storage is opened: of machines that make its tables at the same time all but one are refused."""
PATIENCE = 5.0
"""Seconds after which a trial that nobody holds was given up before anybody could say so."""


class Trials:
    """The trials of one search, as a process takes them one after another."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.asked = searched(plan)
        self.study = opened(plan)
        self.wanted = plan.study.section.quick.trials if plan.study.quick else self.asked.trials
        self._states: Any = optuna_library().trial.TrialState
        self._seen: dict[int, float] = {}

    def take(self) -> optuna.Trial | None:
        """One that was cut short, or a new one, held by this process; None where as many as are wanted are there."""
        while True:
            trial = self._cut_short() or self._new()
            if trial is not None:
                trial.set_user_attr(HOLDER, this_process())
                return trial
            if not self._nobodys():
                return None
            time.sleep(PATIENCE / 10)  # a trial that was begun a moment ago: somebody will hold it, or nobody does

    def proposed(self, trial: optuna.Trial) -> Combination:
        """What is to be tried; values that it has already stay."""
        changes = {}
        for number, (path, where) in enumerate(self.asked.space.items()):
            # A seed for each value, so that a trial that was cut short between two of them goes on as it would have.
            seed = self.asked.seed + trial.number * len(self.asked.space) + number
            self.study.sampler = optuna_library().samplers.TPESampler(seed=seed)
            changes[path] = _suggested(trial, path, where)
        return _combination(self.plan, trial.number, changes)

    def done(self, trial: optuna.Trial, value: float, results: Mapping[int, Mapping[str, Any]]) -> None:
        """Write down what came of a trial."""
        kept = {
            str(seed): {key: item for key, item in result.items() if key not in LEFT_OUT}
            for seed, result in results.items()
        }
        trial.set_user_attr(RESULTS, kept)
        self.study.tell(trial, value, skip_if_finished=True)

    def failed(self, trial: optuna.Trial, why: str) -> None:
        """Write down that nothing came of a trial."""
        trial.set_user_attr(TROUBLE, why)
        self.study.tell(trial, state=self._states.FAIL, skip_if_finished=True)

    def _new(self) -> optuna.Trial | None:
        if self._count() >= self.wanted:
            return None
        trial = self.study.ask()
        if trial.number >= self.wanted:  # another machine asked at the same time, and this is one too many
            self.failed(trial, "one more than was wanted")
            return None
        return trial

    def _count(self) -> int:
        return sum(trial.state != self._states.WAITING for trial in self.study.get_trials(deepcopy=False))

    def _cut_short(self) -> optuna.Trial | None:
        """A trial that a process of this machine was at which is no longer there, or that nobody ever held."""
        for frozen in self._running():
            holder = frozen.user_attrs.get(HOLDER)
            given_up = is_gone(str(holder)) if holder else self._long_alone(frozen.number)
            if given_up:
                found: optuna.Trial = optuna_library().trial.Trial(self.study, frozen._trial_id)
                return found
        return None

    def _long_alone(self, number: int) -> bool:
        """By this machine's own clock: those of others may be hours apart."""
        return time.monotonic() - self._seen.setdefault(number, time.monotonic()) > PATIENCE

    def _nobodys(self) -> bool:
        return any(HOLDER not in frozen.user_attrs for frozen in self._running())

    def _running(self) -> list[optuna.trial.FrozenTrial]:
        return self.study.get_trials(deepcopy=False, states=(self._states.RUNNING,))


def opened(plan: Plan) -> optuna.Study:
    """The study in its storage; made where it is not there yet."""
    library = optuna_library()
    plan.folder.mkdir(parents=True, exist_ok=True)
    storage: Any = searched(plan).storage
    if storage is None:
        journal = import_module("optuna.storages.journal")
        storage = library.storages.JournalStorage(journal.JournalFileBackend(str(plan.folder / "trials.log")))
    for left in reversed(range(OPENINGS)):
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


def tried(plan: Plan) -> list[Combination]:
    """Every trial that was begun and can be, in order, with what came of it on other machines."""
    space, found = searched(plan).space, []
    for trial in opened(plan).get_trials():
        if not all(path in trial.params and _is_known(trial.params[path], where) for path, where in space.items()):
            continue  # cut short before all of it was proposed, or of a space that the file no longer describes
        changes = {path: _value(trial.params[path], where) for path, where in space.items()}
        results = {int(seed): {**result, "series": [], "curves": {}} for seed, result in _results(trial).items()}
        each = _combination(plan, trial.number, changes, results, trial.user_attrs.get(TROUBLE))
        try:
            each.recipe(plan.study, plan.kit)
        except RecipeError:
            continue  # no such model can be; the storage says why
        found.append(each)
    return found


def searched(plan: Plan) -> SearchSection:
    """What the study asks of a search."""
    asked = plan.study.section.search
    assert asked is not None
    return asked


def optuna_library() -> Any:
    """Optuna, kept quiet; KitError where it is not installed."""
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
    trouble: str | None = None,
) -> Combination:
    values = ", ".join(f"{path.rpartition('.')[2]} {label_of(value)}" for path, value in changes.items())
    return Combination({TRIAL: f"{number}: {values}"}, changes, plan.study.section, known=known or {}, trouble=trouble)


def _suggested(trial: optuna.Trial, path: str, where: RangeSection) -> Any:
    if where.choices is not None:
        return _value(trial.suggest_categorical(path, [label_of(choice) for choice in where.choices]), where)
    assert where.low is not None and where.high is not None
    if where.whole:
        return trial.suggest_int(path, int(where.low), int(where.high), log=where.log)
    return trial.suggest_float(path, where.low, where.high, log=where.log)


def _is_known(kept: Any, where: RangeSection) -> bool:
    return where.choices is None or kept in [label_of(choice) for choice in where.choices]


def _value(kept: Any, where: RangeSection) -> Any:
    """The value that a storage keeps by its label, or as it is."""
    if where.choices is None:
        return kept
    return where.choices[[label_of(choice) for choice in where.choices].index(str(kept))]
