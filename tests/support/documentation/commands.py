"""Checks the commands of a page that are not run: that each exists, with these arguments and options."""

from __future__ import annotations

import re
import shlex
from typing import Any

import typer

from kit import Kit
from kit.cli.main import app

STOPS = ("|", ">", "&", "&&")


def misspelt(text: str) -> str | None:
    """The first command that `kit` would not understand, and why."""
    for line in text.replace("\\\n", " ").splitlines():
        arguments = _of_kit(shlex.split(line.removeprefix("$ "), comments=True))
        if arguments is not None and (wrong := _wrong(arguments)):
            return f"{line}: {wrong}"
    return None


def _of_kit(words: list[str]) -> list[str] | None:
    """What `kit` is given in a line, if it is called there: first, after settings, after a pipe, or by `-m kit`."""
    for number, word in enumerate(words):
        before = words[:number]
        settings = all(re.match(r"[A-Z_]+=", each) for each in before)
        if word == "kit" and (settings or before[-1] in ("-m", "|")):
            after = words[number + 1 :]
            end = min((after.index(stop) for stop in STOPS if stop in after), default=len(after))
            return after[:end]
    return None


def _wrong(arguments: list[str]) -> str | None:
    command: Any = typer.main.get_command(app)
    context: Any = command.make_context("kit", ["list"], obj=Kit())
    while hasattr(command, "commands"):
        while arguments and arguments[0] == "--no-plugin":
            arguments = arguments[2:]
        if arguments in (["--help"], ["-h"]):
            return None
        if not arguments or arguments[0] not in command.list_commands(context):
            return "there is no such command"
        command, arguments = command.get_command(context, arguments[0]), arguments[1:]
    if arguments in (["--help"], ["-h"]):
        return None
    try:
        command.make_context("kit", list(arguments))
    except Exception as error:
        return str(getattr(error, "message", error))
    return None
