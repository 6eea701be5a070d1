"""The laws as tests: `pytest -p kit.laws --kit-plugin PACKAGE` adds one for each part of a package and each law."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from kit.component import Component
from kit.errors import KitError
from kit.kit import Kit
from kit.laws.law import Law, laws_of

if TYPE_CHECKING:
    from kit.authoring.finding import Package


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


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Put the laws after the tests that were found in files."""
    report = yield
    if isinstance(collector, pytest.Session) and report.passed and collector.config.getoption("--kit-plugin"):
        packages = [find(name) for name in collector.config.getoption("--kit-plugin")]
        report.result = [*report.result, Laws.from_parent(collector, name="laws", nodeid="laws", packages=packages)]
    return report


class Laws(pytest.Collector):
    """The laws of the packages that were named."""

    def __init__(self, *, packages: list[Package], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.packages = packages

    def collect(self) -> Iterator[pytest.Item]:
        """A test for each plugin that does not load, and for each law of each part."""
        for package in self.packages:
            yield from self._of(package)

    def _of(self, package: Package) -> Iterator[pytest.Item]:
        for plugin in package.plugins:
            if plugin.status != "loaded":
                yield _PluginItem.from_parent(self, name=f"{plugin.name}::loads", error=str(plugin.error))
        for part in package.parts:
            for law in laws_of(part.kind):
                if self.config.getoption("--kit-slow") or not law.slow:
                    title = f"{part.kind}-{part.name}::{law.title}"
                    yield LawItem.from_parent(self, name=title, law=law, component=part.component, kit=package.kit)


def find(name: str) -> Package:
    """The package; one that is not there is a mistake of the command line."""
    from kit.authoring.finding import find_package

    try:
        return find_package(name)
    except KitError as error:
        raise pytest.UsageError(str(error)) from None


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
