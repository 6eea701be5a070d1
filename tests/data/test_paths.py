from pathlib import Path

import pytest

from kit import DataError, find_file
from kit.data.cache_folder import cache_folder


def test_a_relative_path_is_found_in_the_recipes_folder_before_the_current_one(tmp_path, monkeypatch):
    here, recipes = tmp_path / "here", tmp_path / "recipes"
    for folder in (here, recipes):
        folder.mkdir()
        (folder / "both.txt").write_text("x")
    (here / "only.txt").write_text("x")
    monkeypatch.chdir(here)
    assert find_file("both.txt", recipes) == recipes / "both.txt"
    assert find_file("only.txt", recipes) == here / "only.txt"


def test_variables_and_the_home_folder_are_filled_in(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("x")
    monkeypatch.setenv("CORPORA", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_file("$CORPORA/a.txt") == find_file("${CORPORA}/a.txt") == find_file("~/a.txt") == tmp_path / "a.txt"


def test_what_is_missing_is_named_with_every_place_that_was_looked_at(tmp_path, monkeypatch):
    monkeypatch.delenv("NOWHERE", raising=False)
    with pytest.raises(DataError, match="environment variable NOWHERE is not set"):
        find_file("$NOWHERE/a.txt")
    with pytest.raises(DataError, match=f"no such file: 'a.txt'.*for {tmp_path}/a.txt, then for {Path.cwd()}/a.txt"):
        find_file("a.txt", tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match="a folder, not a file"):
        find_file("folder", tmp_path)


def test_a_place_that_is_reached_in_two_ways_is_named_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    for name, folder in (
        ("a.txt", tmp_path),
        ("a.txt", tmp_path / "link"),
        (f"{tmp_path}/a.txt", tmp_path / "recipes"),
    ):
        with pytest.raises(DataError) as error:
            find_file(name, folder)
        assert str(error.value).partition("looked for")[2].count("a.txt") == 1


def test_the_cache_lies_where_the_desktop_standard_says(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert cache_folder() == tmp_path / "x" / "kitformer"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "kitformer"
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(DataError, match="cannot make the cache folder"):
        cache_folder()


def test_a_variable_may_have_a_path_to_fall_back_on(tmp_path, monkeypatch):
    for folder in ("set", "unset"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.txt").write_text("x")
    monkeypatch.delenv("CORPORA", raising=False)
    assert find_file("${CORPORA:-unset}/a.txt", tmp_path) == tmp_path / "unset" / "a.txt"
    monkeypatch.setenv("CORPORA", "set")
    assert find_file("${CORPORA:-unset}/a.txt", tmp_path) == tmp_path / "set" / "a.txt"
