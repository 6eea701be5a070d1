"""The processes of one training, from meeting to parting; one alone is a group too."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING

from torch import distributed
from torch.distributed import PrefixStore, Store  # type: ignore[attr-defined]

from kit.errors import KitError
from kit.training import preflight
from kit.training.launching import PARENT
from kit.training.membership import Member, ProcessMissing
from kit.training.watch import BEAT, Watch

if TYPE_CHECKING:
    from kit.recipe.training_section import TrainingSection

_LONG = timedelta(days=7)
_DONE, _FAILED = "done ", "failed"
_LOST = re.compile(r"connection (was )?(closed|reset|refused|aborted)|broken pipe|timed out|nccl|remote process", re.I)
"""What an exchange says when one of the processes is gone."""


class FailedElsewhere(KitError):
    """Another process failed and says why; this one has nothing to add."""


class Group:
    """What processes that train together do in turn; with one process alone, nothing of it costs anything."""

    def __init__(self, member: Member | None = None, store: Store | None = None, watch: Watch | None = None) -> None:
        self.member = member
        self.watch = watch
        self._store = store
        self._turns = 0

    @property
    def first(self) -> bool:
        """Whether this process writes and speaks for all."""
        return self.member is None or self.member.first

    def mark(self, doing: str) -> None:
        """Tell the others how far this process is."""
        if self.watch is not None:
            self.watch.mark(doing)

    def shared(self, make: Callable[[], str]) -> str:
        """A text that the first process makes and all get."""
        if self._store is None:
            return make()
        key = f"shared/{self._turn()}"
        if self.first:
            with self._telling(key):
                text = make()
            self._store.set(key, f"{_DONE}{text}")
            return text
        return self._hear(key)

    def shared_folder(self, make: Callable[[], Path]) -> Path:
        """A folder that the first process makes and all see."""
        many = self.member is not None and self.member.nodes > 1
        path = Path(self.shared(lambda: str(make().absolute() if many else make())))
        if not path.is_dir():
            raise KitError(
                f"{path} is not there on {gethostname()}: all nodes have to share the file system of the runs"
            )
        return path

    @contextmanager
    def first_then_rest(self) -> Iterator[None]:
        """The first process does what is inside; the others do it after that."""
        if self._store is None:
            yield
            return
        key = f"turn/{self._turn()}"
        if not self.first:
            self._hear(key)
            yield
            return
        with self._telling(key):
            yield
        self._store.set(key, _DONE)

    def leave(self) -> None:
        """All processes part; each goes on by itself."""
        if self.watch is not None:
            # Nobody goes before everybody is here: one that goes early tears the ways of the others down.
            self.watch.stop()
            distributed.barrier()
            distributed.destroy_process_group()
            self.watch = None
        self._store = None

    def said_by_first(self, error: str) -> bool:
        """Whether the first process fails in the same way, so that nobody else has to say it."""
        if self._store is None:
            return False
        if self.first:
            self._store.set("error", error)
            return False
        try:
            self._store.wait(["error"], timedelta(seconds=3))
            return bool(self._store.get("error").decode() == error)
        except RuntimeError:
            return False

    @contextmanager
    def _telling(self, key: str) -> Iterator[None]:
        """Nobody has to wait for what the first process cannot do."""
        assert self._store is not None
        try:
            yield
        except BaseException:
            self._store.set(key, _FAILED)
            raise

    def _hear(self, key: str) -> str:
        assert self._store is not None
        self._store.wait([key], _LONG)
        text = str(self._store.get(key).decode())
        if text == _FAILED:
            raise FailedElsewhere("process 0 failed, and says why")
        return text.removeprefix(_DONE)

    def _turn(self) -> int:
        self._turns += 1
        return self._turns


@contextmanager
def joined(training: TrainingSection, recipe: str, say: Callable[[str], None]) -> Iterator[Group]:
    """Meet the other processes, if there are to be any; recipe: what all of them have to be about to train."""
    member = Member.found()
    if member is None:
        if training.devices * training.nodes > 1:
            raise KitError(
                f"the recipe is to be trained by {training.devices * training.nodes} processes, and this is one alone\n"
                "    start it with kit train or torchrun, or set training.devices and training.nodes to 1"
            )
        preflight.check_alone(training.accelerator)
        yield Group()
        return
    timeout = training.timeout
    device = preflight.device_of(member, training.accelerator)
    told = say if member.first else _nothing
    if (warning := preflight.crowding(member, device)) is not None:
        told(warning)
    tcp = preflight.open_store(member, timeout)
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")  # torchrun may try again, at the same store
    store = PrefixStore(attempt, tcp)
    digest = hashlib.sha256(recipe.encode()).hexdigest()
    cards = preflight.check_in(member, PrefixStore("check", store), digest, timeout, told)
    # A connection of its own: a thread that waits at the store must not keep the watch from speaking.
    own = PrefixStore("watch", PrefixStore(attempt, tcp.clone()))  # type: ignore[attr-defined]
    watch = Watch(member, own, timeout, [card.host for card in cards])
    watch.parent = int(os.environ[PARENT]) if PARENT in os.environ else None
    preflight.connect(member, store, device, timeout)
    watch.start()
    group = Group(member, PrefixStore("group", store), watch)
    try:
        yield group
    except RuntimeError as error:
        lost = _lost(member, watch) if _LOST.search(str(error)) else None
        watch.stop()
        if lost is None:
            raise
        raise lost from error
    except KitError as error:
        watch.stop()
        if group.said_by_first(str(error)):
            failure = FailedElsewhere(str(error))
            failure.exit_code = error.exit_code
            raise failure from error
        raise
    except BaseException:
        watch.stop()
        raise
    group.leave()


def _lost(member: Member, watch: Watch) -> KitError:
    """Whoever is gone falls silent within seconds."""
    time.sleep(4 * BEAT)
    gone = watch.stuck(3 * BEAT)
    who = "; ".join(gone) if gone else "another process is gone"
    if not member.first and not gone:
        return FailedElsewhere(who)
    return ProcessMissing(f"{who}\n    what was saved is whole; go on with kit resume")


def _nothing(text: str) -> None:
    """Said by the first process alone."""
