"""What every test shares: no setting of the person who runs the tests changes which plugins are loaded."""

import os

import pytest

for variable in ("KIT_PLUGINS", "KIT_DISABLE_PLUGINS"):
    os.environ.pop(variable, None)


@pytest.fixture(autouse=True)
def _no_plugin_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KIT_PLUGINS", raising=False)
    monkeypatch.delenv("KIT_DISABLE_PLUGINS", raising=False)
