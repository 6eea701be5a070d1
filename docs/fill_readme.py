"""Fills the console blocks of the README with what the commands print now, and draws its picture: `make readme`."""

from __future__ import annotations

import io
import re
import sys
import tempfile
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]


def _test_of_the_readme() -> ModuleType:
    """The test that takes the README apart; its folder must not be on the path: tests/kit_* would hide plugins."""
    spec = spec_from_file_location("test_readme", ROOT / "tests" / "test_readme.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Rewrite README.md."""
    readme = _test_of_the_readme()
    with tempfile.TemporaryDirectory() as place:
        folder = readme.unpacked(Path(place))

        def filled(match: re.Match[str]) -> str:
            block = readme.Block(match["mark"], match["what"], match["text"])
            if block.mark != "output":
                return match[0]
            told = [(command, readme.printed(command, block, folder).strip()) for command, _ in block.commands()]
            return match[0].replace(block.text, "\n".join(f"$ {command}\n{text}\n" for command, text in told))

        _draw(folder / "translator.yaml")
        path = ROOT / "README.md"
        path.write_text(readme.BLOCK.sub(filled, path.read_text(encoding="utf-8")), encoding="utf-8")


def _draw(recipe: Path) -> None:
    """What `kit explain` shows, as a picture."""
    from rich.console import Console

    from kit import Kit
    from kit.cli.explain import cost_table, model_tree

    kit = Kit()
    explanation = kit.explain(kit.recipe(recipe))
    console = Console(record=True, width=112, file=io.StringIO())
    console.print(model_tree(explanation.tree, explanation.name))
    console.print(cost_table([explanation.cost]))
    drawn = console.export_svg(title="kit explain translator.yaml", unique_id="explain")
    # Rich asks for fonts from the network; any monospaced one does.
    drawn = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)
    (ROOT / "docs" / "images" / "explain.svg").write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()
