"""What every test shares: no setting of who runs them changes which plugins are loaded; and which ones come first."""

import os
import sys

import pytest

for variable in ("KIT_PLUGINS", "KIT_DISABLE_PLUGINS"):
    os.environ.pop(variable, None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that have to run one after another come first, so that nobody waits for them alone at the end."""
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)


def pytest_configure(config: pytest.Config) -> None:
    """Have the kit's own C++ compiled before any test is timed; a training with a short time-out would wait for it."""
    if not hasattr(config, "workerinput"):
        from kit.native import dropping, few, likeliest, products, stretch, texts

        for each in (dropping, few, likeliest, products, stretch, texts):
            each.LIBRARY.load()


@pytest.fixture(autouse=True)
def _no_plugin_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KIT_PLUGINS", raising=False)
    monkeypatch.delenv("KIT_DISABLE_PLUGINS", raising=False)


@pytest.fixture(autouse=True)
def _small_numbers() -> None:
    """A training in this process flushes denormals for good, which others do not expect."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_flush_denormal(False)
