"""The public names of kit: what `from kit import ...` offers, by where it is at home."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from typing import Any

from generating.markdown import code, prose, signature


def page() -> str:
    """Every name of kit.__all__."""
    import kit

    homes: dict[str, list[str]] = {}
    for name in kit.__all__:
        homes.setdefault(_home(name, getattr(kit, name)), []).append(name)
    intro = (
        f"# Python\n\n{len(kit.__all__)} names can be imported from `kit`, and only they are promised to stay. "
        "A name that goes away warns for a release first.\n\n"
    )
    sections = []
    for home, names in sorted(homes.items()):
        module = sys.modules.get(home)
        about = prose((module.__doc__ or "").partition("\n\n")[0]) if module is not None else ""
        sections.append("\n\n".join([f"## {code(home)}", about, *(_entry(name, getattr(kit, name)) for name in names)]))
    return intro + "\n\n".join(sections) + "\n"


def _home(name: str, item: Any) -> str:
    import kit

    homes: dict[str, str] = vars(kit).get("_HOME_OF", {})
    return homes.get(name) or getattr(item, "__module__", "kit")


def _entry(name: str, item: Any) -> str:
    head = f"### {name}"
    if inspect.isclass(item):
        return "\n\n".join([head, f"```py\nclass {name}{_bases(item)}\n```", prose(item.__doc__), *_methods(item)])
    if inspect.isfunction(item):
        return "\n\n".join([head, f"```py\ndef {name}{signature(item)}\n```", prose(item.__doc__)])
    return "\n\n".join([head, f"```py\n{name} = {_shown(item)}\n```"])


def _bases(item: type) -> str:
    names = [base.__name__ for base in item.__bases__ if base not in (object,)]
    return f"({', '.join(names)})" if names else ""


def _methods(item: type) -> list[str]:
    """What the class itself defines and documents, constructor included where it says what it takes."""
    lines = [f"- {code(name)}: {_first(text)}" for name, text in _attributes(item).items()]
    for name, member in vars(item).items():
        function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if isinstance(function, property) and not name.startswith("_"):
            lines.append(f"- {code(name)}: {_first(function.__doc__)}")
        elif inspect.isfunction(function) and (not name.startswith("_") or (name == "__init__" and function.__doc__)):
            spelt = item.__name__ if name == "__init__" else name
            lines.append(f"- {code(spelt + signature(function))}: {_first(function.__doc__)}")
    return ["\n".join(lines)] if lines else []


def _attributes(item: type) -> dict[str, str]:
    """What a class says of its attributes, in the docstrings below them."""
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(item))).body
    except (OSError, TypeError):
        return {}
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for attribute, text in zip(tree.body, tree.body[1:], strict=False):
        told = isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
        if told and isinstance(attribute, ast.AnnAssign) and isinstance(attribute.target, ast.Name):
            found[attribute.target.id] = str(ast.literal_eval(text.value))
    return found


def _first(text: str | None) -> str:
    return prose(inspect.cleandoc(text or "").partition("\n\n")[0].replace("\n", " "))


def _shown(item: Any) -> str:
    text = repr(item)
    return text if len(text) < 80 and " at 0x" not in text else "..."
