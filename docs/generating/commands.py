"""Every command of `kit` with its arguments and options, from the command line itself."""

from __future__ import annotations

import inspect
from typing import Any

from generating.markdown import code, prose, table


def page() -> str:
    """All commands of `kit`, those of the plugins that come with it included."""
    import typer

    from kit.cli.main import app

    whole: Any = typer.main.get_command(app)
    context = typer.Context(whole, info_name="kit")
    commands = {name: whole.get_command(context, name) for name in whole.list_commands(context)}
    intro = (
        "# Commands\n\n`kit COMMAND --help` prints the same. A mistake of yours ends with a message and an exit "
        "code, never with a traceback; `KIT_DEBUG=1` shows where it arose. Other plugins may add more.\n\n"
    )
    before = "Before any command:\n\n" + _options(whole)
    sections = [_command(f"kit {name}", command) for name, command in sorted(commands.items())]
    return intro + "\n\n".join([before, *sections]) + "\n"


def _command(title: str, command: Any) -> str:
    if command.hidden:
        return ""
    below = getattr(command, "commands", {})
    if below:
        parts = [_command(f"{title} {name}", each) for name, each in sorted(below.items())]
        return "\n\n".join([f"## {title}", prose(command.help), *parts])
    arguments = [each for each in command.params if _is_argument(each) and not getattr(each, "hidden", False)]
    usage = " ".join([title, *(_metavar(each) for each in arguments)])
    options = _options(command)
    head = "##" if title.count(" ") == 1 else "###"
    pieces = [f"{head} {title}", f"```text\n{usage}{' [OPTIONS]' if options else ''}\n```", prose(command.help)]
    pieces.append(table(("argument", "what it is"), [(code(_metavar(it)), prose(it.help)) for it in arguments]))
    return "\n\n".join(piece for piece in [*pieces, options] if piece)


def _options(command: Any) -> str:
    rows = []
    for option in command.params:
        if _is_argument(option) or getattr(option, "hidden", False):
            continue
        spelt = ", ".join([*option.opts, *option.secondary_opts])
        if not option.is_flag:
            spelt += f" {option.metavar or option.name.upper()}"
        rows.append((code(spelt), prose(option.help)))
    return table(("option", "what it does"), rows)


def _is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


def _metavar(argument: Any) -> str:
    text = inspect.cleandoc(argument.metavar or argument.name.upper())
    return text if argument.required or text.startswith("[") else f"[{text}]"
