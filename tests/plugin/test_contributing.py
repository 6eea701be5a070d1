"""The part that CONTRIBUTING.md shows is a part."""

import re
import sys
from pathlib import Path
from textwrap import dedent
from types import ModuleType

import torch

from kit import Kit, MaskFeatures, hookimpl

GUIDE = Path(__file__).parents[2] / "CONTRIBUTING.md"


def test_the_example_works(monkeypatch):
    (code,) = re.findall(r"^ *```python\n(.*?)```", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    module = ModuleType("shown")
    monkeypatch.setitem(sys.modules, "shown", module)
    exec(dedent(code), vars(module))
    module.kit_api = 1
    module.kit_components = hookimpl(lambda: [module.WindowMask])
    kit = Kit(plugins=[module], entry_points=[])
    part = kit.registry.find("mask", "window").component
    at = torch.arange(4)
    allowed = part(part.options_type(size=2)).allows(at[:, None], at[None, :], MaskFeatures())
    assert allowed.tolist() == [[abs(q - k) < 2 for k in range(4)] for q in range(4)]
