"""What an error says to install can be installed."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ADVICE = re.compile(r"pip install 'kitformer\[(\w+)\]'")


def test_every_extra_that_is_advised_exists():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    sources = [*(ROOT / "kit").rglob("*.py"), *(ROOT / "plugins").rglob("*.py"), *(ROOT / "docs").rglob("*.md")]
    advised = {name for path in sources for name in ADVICE.findall(path.read_text())}
    assert "huggingface" in advised
    assert advised <= extras.keys()


@pytest.mark.parametrize("extra", ["huggingface", "tensorboard"])
def test_what_is_tested_is_installed_for_the_tests(extra):
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras[extra]) <= set(extras["dev"])
