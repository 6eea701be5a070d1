"""What a page finds in its folder before its first block, where it says so: `<!-- needs: recipes -->`."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from documentation.blocks import DOCS, ROOT, Block, blocks, needs
from documentation.page_runner import Stage, play


def set_up(page: Path, folder: Path, props: Path) -> None:
    """Copy what a page needs into its folder; each is made once, in `props`."""
    for what in needs(page):
        assert what in MAKERS, f"{page}: nothing that pages need is called {what!r}; there are {', '.join(MAKERS)}"
        made = props / what
        if not made.exists():
            made.mkdir(parents=True)
            MAKERS[what](made)
        shutil.copytree(made, folder, dirs_exist_ok=True)


def _recipes(folder: Path) -> None:
    """The recipes that come with the kit."""
    shutil.copytree(ROOT / "recipes", folder / "recipes")


def _words(folder: Path) -> None:
    """A file of words."""
    (folder / "words.txt").write_text("hello\ntransformer\n")


def _pronounce(folder: Path) -> None:
    """A run of the recipe `pronounce`, small and hardly trained."""
    small = "model.width=32 model.encoder.depth=1 model.decoder.depth=1 training.steps=10 training.batch_tokens=512"
    small += " training.validation_examples=10 training.schedule=constant"
    _run(folder, f"kit train {ROOT}/recipes/pronounce.yaml {small}")


def _backwards(folder: Path) -> None:
    """The run of the first tutorial."""
    recipe = next(block for block in blocks(DOCS / "tutorials" / "first-recipe.md") if block.mark == "file")
    (folder / recipe.what).write_text(recipe.text)
    _run(folder, f"kit train {recipe.what}")


def _run(folder: Path, command: str) -> None:
    problems = play([Block("", "", "console", f"$ {command}\n", 0)], Stage(folder))
    assert not problems, problems


MAKERS: dict[str, Callable[[Path], None]] = {
    "recipes": _recipes,
    "words": _words,
    "pronounce": _pronounce,
    "backwards": _backwards,
}
