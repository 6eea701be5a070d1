"""Trouble in one of two processes is known to both: numbers that are not finite, and one that does not move."""

from __future__ import annotations

import re
import time

import pytest
from processes.training_processes import Place, losses

from kit.distributed.rank_info import ProcessMissing
from kit.training.nan_check import NonFiniteLoss

pytestmark = pytest.mark.xdist_group("many")


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_not_finite_in_one_process_stops_all_in_the_same_step(place: Place, strategy: str):
    size = ["training.devices=2", f"training.strategy={strategy}"]
    code, text = place.start("train", "tiny.yaml", *size, TROUBLE="nan:1:7").end()
    assert code == NonFiniteLoss.exit_code, text
    assert text.count("step 7 is not finite") == 1
    assert "process 1: " in text and "the first layer that went wrong is encoder" in text
    assert len(losses(place.newest())) == 6
    for rank in (0, 1):
        before = (place.folder / f"note-{rank}-after-6").read_text()
        assert (place.folder / f"note-{rank}-exception-NonFiniteLoss").read_text() == before
        assert not (place.folder / f"note-{rank}-after-7").exists()


@pytest.mark.parametrize(
    ("trouble", "named"),
    [("stop:1:7", "process 1 on .* gives no sign of life"), ("sleep:1:7", "process 1 on .* is stuck: ")],
)
def test_a_process_that_does_not_move_is_named(place: Place, trouble: str, named: str):
    command = place.start("train", "tiny.yaml", "training.devices=2", "training.timeout=4", TROUBLE=trouble)
    place.wait_for_step(6, command)
    began = time.monotonic()
    code, text = command.end(within=60)
    assert code == ProcessMissing.exit_code, text
    assert time.monotonic() - began < 40  # the time-out, and the time that processes have to end by themselves
    assert re.search(named, text), text
    assert "Traceback" not in text
