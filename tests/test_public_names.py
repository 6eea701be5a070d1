"""What `import kit` promises: one list at run time, the same one for type checkers."""

import ast
from pathlib import Path

import kit

STUB = Path(kit.__file__).with_suffix(".pyi")


def test_type_checkers_know_every_name_and_its_home():
    told = {
        alias.name: node.module
        for node in ast.parse(STUB.read_text()).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert told == kit._HOME_OF


def test_every_name_is_there():
    assert all(getattr(kit, name) is not None for name in kit.__all__)


def test_no_package_has_the_name_of_a_public_function():
    """Importing the package would put it in the function's place."""
    packages = {path.stem for path in STUB.parent.iterdir()}
    assert not packages & {*kit._HOME_OF} - {"kit"}
