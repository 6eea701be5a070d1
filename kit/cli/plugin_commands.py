"""Commands of plugins: `kit --help` reads them from entry points, and only running one imports its plugin.

An entry point of the group `kit.commands` names a command and the module of its plugin, and may name the function whose
docstring is the command's help: `serve = "kit_serve"`, `serve = "kit_serve.command:serve"`. Commands that a plugin adds
in `kit_commands` without such an entry point are found by importing every plugin.
"""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup

from kit.cli.console import errors
from kit.errors import KitError, PartNotFound, PluginError
from kit.kit import Kit
from kit.plugin.discovery import OWN, LoadedPlugin, canonical_name, cause_of

GROUP = "kit.commands"
"""The entry-point group of commands."""
OWN_TOOLS = {
    "embeddings": "kit_inspect",
    "inspect": "kit_inspect",
    "launch": "kit_launch",
    "matrix": "kit_author",
    "plugin": "kit_author",
    "probe": "kit_inspect",
    "prune": "kit_inspect",
    "serve": "kit_serve",
    "study": "kit_study",
}
"""Commands of the plugins in the kit's distribution; the error for a missing one names its plugin."""


@dataclass(frozen=True)
class CommandEntry:
    """A command that an entry point declares."""

    name: str
    module: str
    function: str
    distribution: str
    version: str

    @property
    def origin(self) -> str:
        """The name and version of the distribution."""
        return f"{self.distribution} {self.version}".strip()

    def plugin(self, plugins: Iterable[LoadedPlugin]) -> LoadedPlugin | None:
        """Finds the plugin of the same distribution whose module is, or contains, the module of the command."""
        return next((each for each in plugins if self._belongs_to(each)), None)

    def _belongs_to(self, plugin: LoadedPlugin) -> bool:
        same = canonical_name(plugin.distribution) == canonical_name(self.distribution)
        return same and bool(plugin.module) and f"{self.module}.".startswith(f"{plugin.module}.")

    def help(self) -> str:
        """Reads the first line of the function's docstring from its source; empty if the function is not found."""
        try:
            path = _source(self.module)
            tree = ast.parse(path.read_bytes()) if path is not None else ast.Module([], [])
        except (OSError, SyntaxError, ValueError, ImportError, AttributeError):
            return ""
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == self.function:
                return (ast.get_docstring(node) or "").partition("\n")[0]
        return ""


class DeclaredCommand(TyperCommand):
    """A placeholder for a command whose plugin is not imported."""

    def __init__(self, name: str, entries: Sequence[CommandEntry]) -> None:
        super().__init__(name=name)
        self.entries = entries

    def describe(self, found: Sequence[LoadedPlugin]) -> None:
        """Sets the line of help, which includes why the command cannot run, if known without an import."""
        usable = _usable(self.entries, found)
        disabled = [plugin for entry in self.entries if (plugin := entry.plugin(found)) and plugin.error]
        if len(usable) > 1:
            self.help = f"(in conflict: {' and '.join(entry.origin for entry in usable)} both bring it)"
        elif not usable and disabled:
            self.help = f"(not available: the plugin {disabled[0].name} is {disabled[0].error})"
        else:
            entry = (usable or self.entries)[0]
            self.help = entry.help() or f"A command of {entry.origin}."

    def load(self, kit: Kit) -> Any:
        """Imports the plugin and returns the command that its hook adds."""
        usable = _usable(self.entries, kit.found)
        if len(usable) > 1:
            raise PluginError(_conflict(self.name or "", [entry.origin for entry in usable]))
        entry = (usable or self.entries)[0]
        found = entry.plugin(kit.found)
        if found is None:
            raise PluginError(
                f"{entry.origin} declares the command {self.name!r}, and no plugin of it has the module "
                f"{entry.module}; wanted an entry point for it in the group kit.plugins too"
            )
        plugin = kit.load(found)
        if plugin.status == "disabled":
            raise PartNotFound(
                f"the command {self.name!r} comes from {plugin.title}, which is not in use: {plugin.error}"
            )
        if plugin.status == "failed":
            raise PluginError(
                f"the command {self.name!r} comes from {plugin.title}, which cannot be loaded: {plugin.error}"
            )
        commands = commands_of(kit, plugin)
        if self.name not in commands:
            known = ", ".join(commands) or "none"
            raise PluginError(
                f"{plugin.title} declares the command {self.name!r}, and its hook kit_commands does not add it; "
                f"it adds {known}"
            )
        return commands[self.name]


class CommandGroup(TyperGroup):
    """The commands of the kit and of its plugins; a plugin is imported when its command runs."""

    _in_help = False

    # Newer versions of typer include their own click, so click's types are not named here.
    def list_commands(self, ctx: Any) -> list[str]:
        """Returns the names of commands, those of plugins last."""
        self._declare()
        return super().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Returns a command; a declared one is loaded, except while help is formatted."""
        command = super().get_command(ctx, cmd_name)
        return command.load(_kit_of(ctx)) if isinstance(command, DeclaredCommand) and not self._in_help else command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Looks up the command of an invocation; the error for an unknown one names similar commands."""
        if args[0] not in self.commands:
            self._declare()
        if args[0] not in self.commands:
            self.commands.update(undeclared_commands(_kit_of(ctx), self.commands))
        if args[0] not in self.commands and args[0] in OWN_TOOLS:
            tool = OWN_TOOLS[args[0]]
            ctx.fail(
                f"No such command {args[0]!r}. The plugin {tool} brings it, which comes with {OWN} and is not "
                f"installed here: pip install --force-reinstall --no-deps {OWN}"
            )
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Formats the help, with a line for each command of a plugin."""
        self._declare()
        try:
            found = Kit(disable=ctx.params.get("no_plugin") or ()).found
        except KitError:  # an unknown plugin is disabled; running a command reports it
            found = Kit().found if ctx.params.get("no_plugin") else []
        for command in self.commands.values():
            if isinstance(command, DeclaredCommand):
                command.describe(found)
        self._in_help = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._in_help = False

    def _declare(self) -> None:
        for name, entries in declared_entries().items():
            self.commands.setdefault(name, DeclaredCommand(name, entries))  # the kit's own commands win


def _kit_of(context: Any) -> Kit:
    """Returns the kit of an invocation; commands are looked up before the application's callback creates it."""
    if context.obj is None:
        context.obj = Kit(disable=context.params.get("no_plugin") or ())
    kit: Kit = context.obj
    return kit


def declared_entries() -> dict[str, list[CommandEntry]]:
    """Reads the commands that installed distributions declare, by name; several entries of one name are a conflict."""
    found: dict[str, dict[str, CommandEntry]] = {}
    for entry in importlib.metadata.entry_points(group=GROUP):
        name, version = (entry.dist.name, entry.dist.version) if entry.dist else (entry.module.split(".")[0], "")
        function = entry.attr or entry.name.replace("-", "_")
        command = CommandEntry(entry.name, entry.module, function, name, version)
        found.setdefault(entry.name, {}).setdefault(canonical_name(name), command)
    return {name: sorted(found[name].values(), key=lambda entry: entry.origin) for name in sorted(found)}


def commands_of(kit: Kit, plugin: LoadedPlugin) -> dict[str, Any]:
    """Collects the commands that the hook of a loaded plugin adds."""
    extra = typer.Typer(pretty_exceptions_enable=False)
    extra.callback()(lambda: None)  # keeps it a group, even with one command
    try:
        kit.hook_of(plugin, "kit_commands")(app=extra)
        commands: dict[str, Any] = getattr(typer.main.get_command(extra), "commands", {})
    except (KitError, KeyboardInterrupt):
        raise
    except BaseException as error:  # SystemExit too, and parameters of a type that typer does not know
        raise PluginError(f"the commands of {plugin.title} cannot be added: {cause_of(error)}") from error
    return commands


def undeclared_commands(kit: Kit, declared: Mapping[str, Any]) -> dict[str, Any]:
    """Collects the commands that plugins add without an entry point; a plugin that fails is skipped with a warning."""
    found: dict[str, tuple[LoadedPlugin, Any]] = {}
    for plugin in map(kit.load, kit.found):
        if plugin.status == "failed":
            _warn(f"{plugin.title} cannot be loaded, and may bring more commands: {plugin.error}")
        if plugin.status != "loaded":
            continue
        try:
            commands = commands_of(kit, plugin)
        except KitError as error:
            _warn(str(error))
            continue
        for name, command in commands.items():
            if name in declared:
                continue
            other, _ = found.setdefault(name, (plugin, command))
            if other is not plugin:
                raise PluginError(_conflict(name, [other.title, plugin.title]))
    return {name: command for name, (_, command) in found.items()}


def _usable(entries: Sequence[CommandEntry], found: Sequence[LoadedPlugin]) -> list[CommandEntry]:
    """Selects the entries whose plugin is installed and not disabled."""
    return [entry for entry in entries if (plugin := entry.plugin(found)) and plugin.status != "disabled"]


def _conflict(name: str, origins: Sequence[str]) -> str:
    return (
        f"{' and '.join(origins)} both bring the command {name!r}\n"
        f"    leave one of them out: kit --no-plugin DISTRIBUTION {name} ..."
    )


def _warn(text: str) -> None:
    errors.print(f"[yellow]warning:[/] {escape(text)}", highlight=False, soft_wrap=True)


def _source(module: str) -> Path | None:
    """Finds the source file of a module without importing it."""
    top, *inner = module.split(".")
    spec = importlib.util.find_spec(top)
    if spec is None or not spec.submodule_search_locations:
        return Path(spec.origin) if spec is not None and spec.origin and not inner else None
    for folder in spec.submodule_search_locations:
        path = Path(folder, *inner)
        for candidate in (path / "__init__.py", path.with_suffix(".py")):
            if candidate.is_file():
                return candidate
    return None
