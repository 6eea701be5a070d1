"""How a training is followed: a bar on a terminal, lines in a log."""

from __future__ import annotations

import io

from rich.console import Console

from kit.training.progress import BarReporter, LogLinesReporter, reporter_for

FIGURES = {"loss": 2.5, "tokens_per_second": 12_345.0}


def terminal() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=100, color_system=None)


def written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_bar_shows_how_far_it_is_how_well_and_how_fast():
    console = terminal()
    bar = BarReporter(console)
    bar.start(3, 10)
    bar.step(4, FIGURES)
    bar.say("step 4: validation loss 2.4000")
    bar.step(10, FIGURES | {"loss": 4.5})
    bar.stop()
    shown = written(console)
    assert "step 4: validation loss 2.4000\n" in shown
    last = shown.split("step 10/10")[-1]
    assert "loss 2.600" in last and "12,345 tokens/s" in last and "left" in last  # smoothed over the steps


def test_a_bar_that_is_stopped_before_it_began_and_twice_says_nothing():
    console = terminal()
    bar = BarReporter(console)
    bar.say("runs/tiny/1")
    bar.stop()
    bar.stop()
    assert "runs/tiny/1" in written(console) and "step" not in written(console)


def test_a_log_gets_lines():
    console = Console(file=io.StringIO(), width=100)
    reporter = reporter_for(console)
    assert isinstance(reporter, LogLinesReporter)
    reporter.start(0, 40)
    for step in range(1, 5):
        reporter.step(step, FIGURES)
    lines = written(console).splitlines()
    assert [line.split("  ")[0] for line in lines] == ["step 2/40", "step 4/40"]
