"""What commands print where there is no terminal: nothing is cut."""

from __future__ import annotations

import pytest
from rich.table import Column, Table

from kit.cli.console import DEFAULT_WIDTH, screen

NAMES = [f"alignment{number}" for number in range(14)]


def printed(table: Table, capsys: pytest.CaptureFixture[str]) -> str:
    screen().print(table)
    return capsys.readouterr().out


def test_a_table_wider_than_a_page_keeps_every_word(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(Column("head", no_wrap=True), *NAMES, "what it does", box=None, pad_edge=False)
    table.add_row("  head 1", *[f"0.41[dim]±{number % 10}.03[/]" for number in range(14)], "looks back " * 8)
    text = printed(table, capsys)
    assert "…" not in text
    first, second = text.splitlines()
    assert all(name in first.split() for name in NAMES) and "  head 1" in second
    assert [word for word in second.split() if "±" in word] == [f"0.41±{number % 10}.03" for number in range(14)]
    assert ("looks back " * 8).strip() in second


def test_a_table_that_fits_by_wrapping_stays_within_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("name", "what it is", box=None, pad_edge=False)
    table.add_row("softmax", "words " * 60)
    lines = printed(table, capsys).splitlines()
    assert max(map(len, lines)) <= DEFAULT_WIDTH and " ".join(lines).count("words") == 60


def test_one_long_word_among_others_is_not_cut(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("run", "where", "what", box=None, pad_edge=False)
    table.add_row("a/1", "/folder" * 15, "words " * 30)
    assert "/folder" * 15 in printed(table, capsys)
