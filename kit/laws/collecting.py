"""The laws as tests: `pytest -p kit.laws --kit-plugin PACKAGE` adds one for each part of a package and each law."""

from __future__ import annotations

from typing import Any

import pytest

from kit.component import Component
from kit.kit import Kit
from kit.laws.law import Law, laws_of


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of this plugin."""
    group = parser.getgroup("kit", "laws of Kitformer's parts")
    group.addoption(
        "--kit-plugin",
        action="append",
        default=[],
        metavar="PACKAGE",
        help="hold the parts of this plugin, distribution, module or folder to their laws; may be given again",
    )
    group.addoption("--kit-quick", action="store_true", help="with one set of options for each part")
    group.addoption("--kit-slow", action="store_true", help="also the laws that take long")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add a test for each plugin that does not load, and for each law of each part."""
    from kit.authoring.finding import find_package
    from kit.errors import KitError

    for name in config.getoption("--kit-plugin"):
        try:
            package = find_package(name)
        except KitError as error:
            raise pytest.UsageError(str(error)) from None
        for plugin in package.plugins:
            if plugin.status != "loaded":
                items.append(_PluginItem.from_parent(session, name=f"{plugin.name}::loads", error=str(plugin.error)))
        for part in package.parts:
            for law in laws_of(part.kind):
                if config.getoption("--kit-slow") or not law.slow:
                    title = f"{part.kind}-{part.name}::{law.title}"
                    items.append(
                        LawItem.from_parent(session, name=title, law=law, component=part.component, kit=package.kit)
                    )


class LawItem(pytest.Item):
    """One law of one part."""

    def __init__(self, *, law: Law, component: type[Component], kit: Kit, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.law = law
        self.component = component
        self.kit = kit

    def runtest(self) -> None:
        """Try it; a law that the part does not claim is skipped."""
        from kit.laws import try_law

        verdict = try_law(self.law, self.component, self.kit, self.config.getoption("--kit-quick"))
        if verdict.outcome == "not claimed":
            pytest.skip(verdict.message)
        if verdict.outcome == "failed":
            raise _Broken(f"{self.law.title}: {self.law.sentence}\n{verdict.message}")

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        """The law and what went wrong; the way there is the kit's own."""
        return str(excinfo.value) if isinstance(excinfo.value, _Broken) else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[str, None, str]:
        """Where it comes from."""
        return self.component.__module__, None, self.name


class _PluginItem(pytest.Item):
    """A plugin that cannot be loaded."""

    def __init__(self, *, error: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.error = error

    def runtest(self) -> None:
        """Fail with the cause."""
        raise _Broken(f"the plugin cannot be loaded: {self.error}")

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        """The cause alone."""
        return str(excinfo.value)

    def reportinfo(self) -> tuple[str, None, str]:
        """Where it comes from."""
        return self.name, None, self.name


class _Broken(Exception):
    """What a test of a law fails with."""
