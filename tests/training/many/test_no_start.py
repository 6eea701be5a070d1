"""Two processes that cannot start leave no run behind, and one of them says why."""

from __future__ import annotations

import pytest
from processes.training_processes import Place

pytestmark = pytest.mark.xdist_group("many")


def test_the_folder_is_removed_again(place: Place):
    code, text = place.start("train", "tiny.yaml", "training.devices=2", "training.batch_tokens=1").end()
    assert code not in (0, 137), text
    assert text.count("and a batch may have 1") == 1 and "Traceback" not in text
    assert "runs/tiny/1 is removed again: nothing was trained" in text
    assert list((place.folder / "runs").iterdir()) == []
