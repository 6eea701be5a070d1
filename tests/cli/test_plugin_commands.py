"""Commands of plugins: named in help without an import, imported alone when run, and isolated when they are broken."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PLUGIN = '''\
"""A plugin with commands."""

print("{module} is imported")
from kit import hookimpl

kit_api = 1


@hookimpl
def kit_commands(app):
    @app.command("{command}")
    def {function}(times: int = 1) -> None:
        """{help}"""
        print("{function} runs", times)
'''


class Site:
    """A folder of installed distributions, and `kit` run with it in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def install(self, name: str, source: str, commands: str = "", plugin: bool = True) -> None:
        """Write the files of a distribution `kit-NAME` with the module `kit_NAME`."""
        (self.folder / f"kit_{name}.py").write_text(source)
        info = self.folder / f"kit_{name}-1.5.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: kit-{name}\nVersion: 1.5\n")
        groups = f"[kit.plugins]\n{name} = kit_{name}\n" if plugin else ""
        (info / "entry_points.txt").write_text(f"{groups}[kit.commands]\n{commands}\n" if commands else groups)

    def bring(self, name: str, command: str, help: str = "Say hello.", declared: bool = True) -> None:
        """Install a plugin with one command."""
        function = command.replace("-", "_")
        source = PLUGIN.format(module=f"kit_{name}", command=command, function=function, help=help)
        self.install(name, source, f"{command} = kit_{name}" if declared else "")

    def kit(self, *arguments: str, code: int = 0, **environment: str) -> str:
        """Everything that is printed."""
        program = f"import sys; sys.path.insert(0, {str(self.folder)!r}); import kit.cli; kit.cli.main()"
        settings = {"PATH": "", "COLUMNS": "200", "HOME": str(self.folder), **environment}
        done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, env=settings)
        printed = done.stdout + done.stderr
        assert done.returncode == code, printed
        assert "Traceback" not in printed
        return printed


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "site")


def line_of(printed: str, word: str) -> str:
    return next((line for line in printed.splitlines() if line.strip("│ ").startswith(f"{word} ")), "")


def test_help_names_a_command_without_importing_its_plugin(site: Site) -> None:
    site.bring("greeter", "greet-all", "Greet everybody.")
    site.bring("shy", "whisper", declared=False)
    printed = site.kit("--help")
    assert "Greet everybody." in line_of(printed, "greet-all")
    assert "is imported" not in printed
    assert not line_of(printed, "whisper"), "nothing declares it, so that only an import would find it"
    assert line_of(printed, "train"), "the kit's own commands stay"


def test_the_function_of_the_help_may_be_named(site: Site) -> None:
    site.bring("greeter", "greet")
    (site.folder / "kit_package").mkdir()
    (site.folder / "kit_package" / "__init__.py").write_text("raise RuntimeError('imported')\n")
    (site.folder / "kit_package" / "words.py").write_text('def bow() -> None:\n    """Bow deeply."""\n')
    site.install("other", "", "bow = kit_package.words:bow\nnod = kit_package.words:nod\nfly = kit_nowhere", False)
    printed = site.kit("--help")
    assert "Bow deeply." in line_of(printed, "bow")
    for command in ("nod", "fly"):  # a function, a module that are not there
        assert "A command of kit-other 1.5." in line_of(printed, command)


def test_a_command_imports_its_own_plugin_alone(site: Site) -> None:
    site.bring("greeter", "greet")
    site.bring("second", "bow")
    printed = site.kit("greet", "--times", "3")
    assert "greet runs 3" in printed and "kit_greeter is imported" in printed
    assert "kit_second is imported" not in printed
    assert "--times" in site.kit("greet", "--help")


def test_a_command_without_an_entry_point_is_found_when_it_is_typed(site: Site) -> None:
    site.bring("shy", "whisper", declared=False)
    assert "whisper runs 1" in site.kit("whisper")


def test_a_typo_names_the_nearest_command_of_any_plugin(site: Site) -> None:
    site.bring("greeter", "greet")
    site.bring("shy", "whisper", declared=False)
    assert "No such command 'gret'. Did you mean 'greet'?" in site.kit("gret", code=2)
    assert "Did you mean 'whisper'?" in site.kit("whispr", code=2)
    assert "No such command 'qqqq'." in site.kit("qqqq", code=2)


@pytest.mark.parametrize("way", ["option", "variable"])
def test_a_disabled_plugin_is_named(site: Site, way: str) -> None:
    site.bring("greeter", "greet")
    options = ["--no-plugin", "greeter"] if way == "option" else []
    environment = {"KIT_DISABLE_PLUGINS": "greeter"} if way == "variable" else {}
    source = "--no-plugin" if way == "option" else "KIT_DISABLE_PLUGINS"
    refused = site.kit(*options, "greet", code=4, **environment)
    assert (
        f"the command 'greet' comes from kit-greeter 1.5 (plugin greeter), which is not in use: disabled by {source}"
        in (refused)
    )
    assert f"disabled by {source}" in line_of(site.kit(*options, "--help", **environment), "greet")
    assert "greet runs" in site.kit("greet"), "without it the command is there"


def test_a_broken_plugin_is_named_and_the_others_stay(site: Site) -> None:
    site.bring("greeter", "greet")
    site.bring("shy", "whisper", declared=False)
    site.install("torn", "import nowhere_to_be_found\n", "tear = kit_torn")
    told = site.kit("tear", code=3)
    assert "the command 'tear' comes from kit-torn 1.5 (plugin torn), which cannot be loaded" in told
    assert "nowhere_to_be_found" in told
    assert "greet runs" in site.kit("greet")
    printed = site.kit("whisper")
    assert "warning: kit-torn 1.5 (plugin torn) cannot be loaded" in printed and "whisper runs" in printed
    assert "No such command 'qqqq'." in site.kit("qqqq", code=2)


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        ("raise RuntimeError('no commands today')", "no commands today"),
        ("raise SystemExit(9)", "SystemExit: 9"),
        ("app.command('tear')(lambda thing: None); app.command('x')(_bad)", "cannot be added"),
    ],
    ids=["raises", "exits", "unknown-type"],
)
@pytest.mark.parametrize("declared", [True, False])
def test_a_plugin_whose_hook_fails_is_named(site: Site, body: str, cause: str, declared: bool) -> None:
    source = (
        "from kit import hookimpl\nkit_api = 1\ndef _bad(thing: list[list[int]]): ...\n"
        f"@hookimpl\ndef kit_commands(app):\n    {body}\n"
    )
    site.install("torn", source, "tear = kit_torn" if declared else "")
    site.bring("shy", "whisper", declared=False)
    told = site.kit("tear", code=3 if declared else 2)
    assert "kit-torn 1.5" in told and cause in told
    assert "whisper runs" in site.kit("whisper")


def test_a_command_that_the_hook_does_not_add_is_no_riddle(site: Site) -> None:
    site.bring("greeter", "greet")
    info = site.folder / "kit_greeter-1.5.dist-info" / "entry_points.txt"
    info.write_text(info.read_text() + "wave = kit_greeter\n")
    told = site.kit("wave", code=3)
    assert "declares the command 'wave', and its hook kit_commands does not add it; it adds greet" in told
    site.install("lone", PLUGIN.format(module="kit_lone", command="x", function="x", help="X."), "x = kit_lone", False)
    assert "no plugin of it has the module kit_lone" in site.kit("x", code=3)


@pytest.mark.parametrize("declared", [True, False])
def test_two_plugins_with_one_command_are_both_named(site: Site, declared: bool) -> None:
    site.bring("one", "greet", declared=declared)
    site.bring("two", "greet", declared=declared)
    told = site.kit("greet", code=3)
    assert "kit-one 1.5" in told and "kit-two 1.5" in told and "both bring the command 'greet'" in told
    assert "greet runs" in site.kit("--no-plugin", "kit-two", "greet")
    if declared:
        assert "kit-one 1.5 and kit-two 1.5" in line_of(site.kit("--help"), "greet")


def test_a_plugin_cannot_take_a_command_of_the_kit(site: Site) -> None:
    site.bring("thief", "list", "Steal.")
    printed = site.kit("--help")
    assert "Steal." not in printed and "List the installed parts" in line_of(printed, "list")
    assert "softmax" in site.kit("list", "attention")
