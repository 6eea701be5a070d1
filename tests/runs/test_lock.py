"""The lock names exactly what is missing, older, newer or edited."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from kit.hookspecs import hookimpl
from kit.plugin.discovery import LoadedPlugin
from kit.runs.lock import Lock, compare
from kit.runs.provenance import Source, UsedPart, plugin_sources, source_of
from kit.runs.run_directory import RunError

WINDOW = Source(distribution="kit-window", version="1.2", sha256="aa")
NOW = Lock.current({"window": WINDOW}, seed=1, data={"train": "f" * 64})


def a_lock(**changes: object) -> Lock:
    return NOW.model_copy(update=changes)


def test_the_same_is_no_difference() -> None:
    assert compare(a_lock(), a_lock()) == []
    more = {"window": WINDOW, "another": WINDOW}
    assert compare(a_lock(), a_lock(plugins=more)) == []


def test_a_missing_plugin_names_the_install_that_brings_it() -> None:
    (sentence,) = compare(a_lock(), a_lock(plugins={}))
    assert sentence == "plugin window is not here; it came with kit-window==1.2: pip install kit-window==1.2"
    loose = {"window": Source(distribution=None, version=None, sha256="aa")}
    (sentence,) = compare(a_lock(plugins=loose), a_lock(plugins={}))
    assert "its files are needed" in sentence


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": "2.0"}, ["was version 1.2, is 2.0", "pip install kit-window==1.2"]),
        ({"sha256": "bb"}, ["edited", "still version 1.2"]),
        ({"version": "2.0", "sha256": "bb"}, ["was version 1.2, is 2.0"]),
        ({"distribution": "other"}, ["came with kit-window, now comes with other"]),
    ],
)
def test_a_changed_plugin_says_how(change: dict[str, str], words: list[str]) -> None:
    (sentence,) = compare(a_lock(), a_lock(plugins={"window": WINDOW.model_copy(update=change)}))
    assert sentence.startswith("plugin window") and all(word in sentence for word in words)


SOFTMAX = UsedPart(plugin="attention", distribution="kitformer", version="1", sha256="cc")
EDITED = WINDOW.model_copy(update={"sha256": "bb"})


@pytest.mark.parametrize("here", [{"window": EDITED}, {}], ids=["edited", "missing"])
def test_a_plugin_that_the_run_made_no_use_of_is_not_talked_about(here: dict[str, Source]) -> None:
    without = a_lock(parts={"attention softmax": SOFTMAX})
    assert compare(without, a_lock(plugins=here, parts=without.parts)) == []
    window = SOFTMAX.model_copy(update={"plugin": "window", "distribution": "kit-window"})
    using = a_lock(parts={"attention softmax": SOFTMAX, "mask window": window})
    (sentence,) = compare(using, a_lock(plugins=here, parts=using.parts))
    assert sentence.startswith("plugin window")


def test_a_plugin_that_acts_on_every_run_is_talked_about_without_any_part() -> None:
    acting = WINDOW.model_copy(update={"acts": True})
    lock = a_lock(plugins={"window": acting}, parts={"attention softmax": SOFTMAX})
    for here in ({"window": EDITED}, {}):
        (sentence,) = compare(lock, a_lock(plugins=here, parts=lock.parts))
        assert sentence.startswith("plugin window")


class Brings:
    @hookimpl
    def kit_components(self) -> list[type]:
        return []


class Listens:
    @hookimpl(specname="kit_callbacks")
    def watch(self, recipe: object) -> list[object]: ...


@pytest.mark.parametrize(("plugin", "acts"), [(Brings(), False), (Listens(), True)])
def test_a_lock_knows_which_plugins_listen_to_runs(plugin: object, acts: bool) -> None:
    found = LoadedPlugin("sample", "sample", "", load=lambda: plugin, status="loaded", from_object=True)
    assert plugin_sources([found])["sample"].acts is acts


def test_everything_else_is_compared_too() -> None:
    other = a_lock(torch="1.0", python="2.7", platform="CP/M", seed=2, data={"train": "0" * 64})
    sentences = compare(a_lock(), other)
    assert len(sentences) == 5
    assert any(sentence.startswith("torch was 2.") and sentence.endswith("is 1.0") for sentence in sentences)
    assert any("data train has changed" in sentence for sentence in sentences)
    assert compare(a_lock(), a_lock(data={})) == []  # prediction has no data to compare
    assert compare(a_lock(), a_lock(data={"test": "a"})) == [
        "data train was used and is not here", "data test was not used in the run"
    ]  # fmt: skip


def test_a_lock_comes_back_from_its_file(tmp_path: Path) -> None:
    lock = a_lock()
    lock.write(tmp_path / "lock.json")
    assert Lock.read(tmp_path / "lock.json") == lock
    with pytest.raises(RunError, match="is missing"):
        Lock.read(tmp_path / "none.json")
    (tmp_path / "lock.json").write_text('{"seed": "x"}')
    with pytest.raises(RunError, match="not a lock"):
        Lock.read(tmp_path / "lock.json")


def test_two_runs_have_two_identities() -> None:
    assert Lock.current({}, seed=1).run != Lock.current({}, seed=1).run


def test_an_edit_to_a_file_of_a_package_changes_its_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "kit_sample_window"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "window.py").write_text("SIZE = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("kit_sample_window")
    before = source_of(module)
    assert (before.distribution, before.version) == (None, None)
    (package / "__pycache__").mkdir(exist_ok=True)
    (package / "__pycache__" / "window.pyc").write_text("compiled")
    assert source_of(module) == before == source_of("kit_sample_window")
    (package / "window.py").write_text("SIZE = 2\n")
    assert source_of(module).sha256 != before.sha256
    plugin = LoadedPlugin("sample", "kit_sample_window", "", load=lambda: module, status="loaded", from_object=True)
    assert plugin_sources([plugin]) == {"sample": source_of(module)}
    assert plugin_sources([plugin.failed("broken")]) == {}
    del sys.modules["kit_sample_window"]


def test_an_installed_distribution_is_named_with_its_version() -> None:
    source = source_of("pluggy")
    assert source.distribution == "pluggy" and source.version and source.version[0].isdigit()
    kit = a_lock().kit
    assert kit.distribution == "kitformer" and kit.version
