"""Pytest plugin: `pytest -p kit.laws --kit-plugin PACKAGE` collects a test for each law of each part of a package."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from kit.errors import KitError
from kit.kit import Kit
from kit.laws.law import Law, laws_of
from kit.plugin.component import Component

if TYPE_CHECKING:
    from kit.laws.packages import Package


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the command-line options."""
    group = parser.getgroup("kit", "laws of Kitformer's parts")
    group.addoption(
        "--kit-plugin",
        action="append",
        default=[],
        metavar="PACKAGE",
        help="test the parts of this plugin, distribution, module or folder for their laws; may be repeated",
    )
    group.addoption("--kit-quick", action="store_true", help="with one set of options for each part")
    group.addoption("--kit-slow", action="store_true", help="also the laws that take long")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Collects laws after the tests of files."""
    report = yield
    if isinstance(collector, pytest.Session) and report.passed and collector.config.getoption("--kit-plugin"):
        packages = [find_or_usage_error(name) for name in collector.config.getoption("--kit-plugin")]
        report.result = [*report.result, Laws.from_parent(collector, name="laws", nodeid="laws", packages=packages)]
    return report


class Laws(pytest.Collector):
    """Collects the laws of the given packages."""

    def __init__(self, *, packages: list[Package], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.packages = packages

    def collect(self) -> Iterator[pytest.Item]:
        """Yields a test for each plugin that does not load, and for each law of each part."""
        for package in self.packages:
            yield from self._collect_package(package)

    def _collect_package(self, package: Package) -> Iterator[pytest.Item]:
        for plugin in package.plugins:
            if plugin.status != "loaded":
                yield _PluginItem.from_parent(self, name=f"{plugin.name}::loads", error=str(plugin.error))
        for part in package.parts:
            for law in laws_of(part.kind):
                if self.config.getoption("--kit-slow") or not law.slow:
                    title = f"{part.kind}-{part.name}::{law.title}"
                    yield LawItem.from_parent(self, name=title, law=law, component=part.component, kit=package.kit)


def find_or_usage_error(name: str) -> Package:
    """Finds a package; raises a usage error if there is none."""
    from kit.laws.packages import find_package

    try:
        return find_package(name)
    except KitError as error:
        raise pytest.UsageError(str(error)) from None


class LawItem(pytest.Item):
    """A test of one law for one part."""

    def __init__(self, *, law: Law, component: type[Component], kit: Kit, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.law = law
        self.component = component
        self.kit = kit

    def runtest(self) -> None:
        """Tests the part for the law; skips a law that does not apply."""
        from kit.laws import try_law

        verdict = try_law(self.law, self.component, self.kit, self.config.getoption("--kit-quick"))
        if verdict.outcome == "not claimed":
            pytest.skip(verdict.message)
        if verdict.outcome == "failed":
            raise _TestFailure(f"{self.law.title}: {self.law.sentence}\n{verdict.message}")

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        """Returns the law and its violation, without a traceback."""
        return str(excinfo.value) if isinstance(excinfo.value, _TestFailure) else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[str, None, str]:
        """Returns the location in reports."""
        return self.component.__module__, None, self.name


class _PluginItem(pytest.Item):
    """A failing test for a plugin that cannot be loaded."""

    def __init__(self, *, error: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.error = error

    def runtest(self) -> None:
        """Fails with the load error."""
        raise _TestFailure(f"the plugin cannot be loaded: {self.error}")

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        """Returns the load error."""
        return str(excinfo.value)

    def reportinfo(self) -> tuple[str, None, str]:
        """Returns the location in reports."""
        return self.name, None, self.name


class _TestFailure(Exception):
    """The failure of a test, without a traceback."""
