"""Every code block of the documentation is run, checked or compared; `documentation.blocks` lists the marks."""

from __future__ import annotations

from pathlib import Path

import pytest
from documentation.blocks import DOCS, ROOT, Block, agrees, blocks, pages
from documentation.commands import misspelt
from documentation.page_runner import Stage, play
from documentation.page_setup import set_up

PAGES = pages()


@pytest.fixture(scope="session")
def props(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What pages may need: made once."""
    return tmp_path_factory.mktemp("props")


@pytest.mark.parametrize("page", PAGES, ids=[path.relative_to(DOCS).as_posix() for path in PAGES])
def test_what_a_page_shows_is_so(page: Path, tmp_path: Path, props: Path) -> None:
    set_up(page, tmp_path, props)
    problems = play(blocks(page), Stage(tmp_path))
    assert not problems, f"{page.relative_to(ROOT)}, " + "\n".join(problems)


def test_a_command_that_is_not_run_is_read() -> None:
    assert misspelt("kit check recipe.yaml --json  # as data\nkit explain recipe.yaml model.width=64") is None
    assert misspelt("MASTER_PORT=1 kit train recipe.yaml\ntorchrun -m kit resume run/1 | cat") is None
    assert "no such command" in str(misspelt("kit chekc recipe.yaml"))
    assert "--jsno" in str(misspelt("kit check recipe.yaml --jsno"))


def test_what_is_shown_may_leave_out_lines_and_numbers() -> None:
    assert agrees("one\n...\nthree\n", "one\ntwo\ntwo\nthree")
    assert not agrees("one\n...\nfour\n", "one\ntwo\nthree")
    assert agrees("loss 1.23  12.5 kB", "loss 0.98 3.1 kB", loosely=True)
    assert not agrees("loss 1.23", "loss 0.98")
    assert not agrees("loss 1.23", "gain 1.23", loosely=True)


def test_a_block_that_does_not_do_what_the_page_says_is_noticed(tmp_path: Path) -> None:
    def wrong(language: str, text: str, mark: str = "", what: str = "") -> bool:
        return bool(play([Block(mark, what, language, text, 1)], Stage(tmp_path)))

    assert wrong("python", "assert 1 + 1 == 3")
    assert wrong("yaml", "name: x\nmodel: {family: encoder, width: 30}")
    assert wrong("yaml", "name: x")
    assert wrong("console", "$ kit list attention\nno such thing\n")
    assert wrong("console", "kit lits\n")
    assert wrong("rust", "fn main() {}")
    assert wrong("text", "2\n", "printed")
    assert not wrong("python", "print(1 + 1)")
