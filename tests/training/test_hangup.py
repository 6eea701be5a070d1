"""A terminal that is closed: SIGHUP is a request to save and end, as SIGTERM is, and output has nowhere to go."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from kit.distributed.launcher import leave_terminal
from kit.training.progress import SilentReporter
from kit.training.train import train

IMPORT = "from kit.distributed.launcher import leave_terminal"
CHILD = "import os, signal, sys; signal.signal(signal.SIGHUP, lambda *_: sys.exit(129)); signal.pause()"
PARENT = """
import os, signal, sys, threading
from kit.distributed.launcher import Processes
from kit.distributed.rank_info import RankInfo
if sys.argv[1] == "nohup":
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
ranks = [RankInfo(n, 2, n, 2, "127.0.0.1", 1, True) for n in (0, 1)]
child = sys.argv[2]
sys.exit(Processes([sys.executable, "-c", child], ranks, print).run())
"""


class HangUp(SilentReporter):
    """A terminal that is closed after a step."""

    def step(self, step, figures):
        if step == 2:
            os.kill(os.getpid(), signal.SIGHUP)


def test_a_training_saves_and_ends_and_goes_on(tiny, kit):
    before = signal.getsignal(signal.SIGHUP)
    done = train(tiny(), kit, reporter=HangUp())
    assert (done.ending, done.step, done.signal) == ("interrupted", 3, signal.SIGHUP)
    assert (done.run.checkpoints / "step-00000003").is_dir() and signal.getsignal(signal.SIGHUP) is before
    assert train(kit.recipe(done.run.recipe), kit, done.run).ending == "finished"


def test_under_nohup_a_training_goes_on(tiny, kit):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        done = train(tiny("training.steps=4"), kit, reporter=HangUp())
        assert (done.ending, done.step) == ("finished", 4) and signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_output_to_a_closed_terminal_is_dropped_and_no_error():
    main, terminal = pty.openpty()
    program = (
        f"import os, signal, sys; {IMPORT}\n"
        "signal.signal(signal.SIGHUP, lambda number, frame: leave_terminal(number))\n"
        "print('ready', flush=True); os.write(3, b'1'); signal.pause(); print('saved', flush=True); sys.exit(7)"
    )
    ready, written = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", f"import os; os.dup2({written}, 3)\n{program}"],
        stdin=terminal, stdout=terminal, stderr=terminal, pass_fds=[written], start_new_session=True,
    )  # fmt: skip
    os.close(terminal)
    os.close(written)
    assert os.read(ready, 1) == b"1"
    os.close(main)  # from here on, writing to it is an error
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        process.send_signal(signal.SIGHUP)  # again, in case it came just before the pause
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.2)
    assert process.returncode == 7


def test_output_to_a_file_stays_after_a_hangup(tmp_path):
    with open(tmp_path / "log", "w") as log:
        subprocess.run(
            [sys.executable, "-c", f"{IMPORT}; leave_terminal(1); print('on')"],
            stdout=log, check=True,
        )  # fmt: skip
    assert (tmp_path / "log").read_text() == "on\n"
    leave_terminal(signal.SIGTERM)


@pytest.mark.parametrize("nohup", [False, True])
def test_the_launcher_hands_it_on(nohup: bool):
    child = CHILD.replace("signal.pause()", "os.write(1, b'up\\n'); signal.pause()")
    if nohup:
        child = "import os, time; os.write(1, b'up\\n'); time.sleep(1)"
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, "nohup" if nohup else "", child], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in (0, 1)] == ["up\n", "up\n"]
        process.send_signal(signal.SIGHUP)
        assert process.wait(60) == (0 if nohup else 129)
