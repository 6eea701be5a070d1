"""What a recipe's YAML means, and what is refused with its line."""

import pytest

from kit.errors import RecipeError
from kit.recipe.nodes import locate, to_plain
from kit.recipe.yaml_reader import MAX_RECIPE_BYTES, read_value, read_yaml


def read(text: str | bytes) -> object:
    return to_plain(read_yaml(text if isinstance(text, bytes) else text.encode(), "r.yaml"))


def refusal(text: str | bytes) -> str:
    with pytest.raises(RecipeError) as caught:
        read(text)
    assert all(problem.line is not None for problem in caught.value.problems)
    return str(caught.value)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("2e-5", 2e-5),
        ("1.0e-3", 1e-3),
        ("1E3", 1000.0),
        (".5", 0.5),
        ("-3.", -3.0),
        ("12", 12),
        ("+12", 12),
        ("-0", 0),
        ("007", 7),
        ("0x1f", 31),
        ("0o17", 15),
        ("true", True),
        ("false", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("no", "no"),
        ("yes", "yes"),
        ("on", "on"),
        ("off", "off"),
        ("True", "True"),
        ("1_000", "1_000"),
        ("12:30:45", "12:30:45"),
        ("2026-11-16", "2026-11-16"),
        ("1.2.3", "1.2.3"),
        ("=", "="),
        ("'12'", "12"),
        ('"true"', "true"),
        ('"a\\tb"', "a\tb"),
        ("|\n  12\n", "12\n"),
    ],
)
def test_scalars(written: str, value: object) -> None:
    found = read(f"key: {written}")
    assert found == {"key": value}
    assert type(found["key"]) is type(value)  # type: ignore[index]


def test_every_value_knows_its_line() -> None:
    root = read_yaml(b"a: 1\nb:\n  c:\n    - x\n    - {d: 2,\n       e: 3}\n", "r.yaml")
    lines = {path: locate(root, path).line for path in [("a",), ("b",), ("b", "c"), ("b", "c", 1, "e"), ("b", "c", 0)]}
    assert lines == {("a",): 1, ("b",): 2, ("b", "c"): 3, ("b", "c", 1, "e"): 6, ("b", "c", 0): 4}
    assert locate(root, ("b", "missing", "deeper")).line == 2
    assert locate(root, ("b", "c", 9)).line == 3


def test_aliases_repeat_a_value() -> None:
    assert read("a: &x {p: 1}\nb: [*x, *x]\nc: &y 3\nd: *y") == {
        "a": {"p": 1},
        "b": [{"p": 1}, {"p": 1}],
        "c": 3,
        "d": 3,
    }


def test_a_byte_order_mark_and_windows_line_ends_are_fine() -> None:
    assert read(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n") == {"a": 1, "b": 2}


REFUSED = {
    "a: 1\nb:\n  c: 1\n  c: 2": "r.yaml:4: b.c: found the key 'c' twice (first on line 3)\n    keep one of the two",
    "a: !!python/object/apply:os.system [ls]": (
        "r.yaml:1: a: found the tag tag:yaml.org,2002:python/object/apply...: recipes hold plain values only\n"
        "    leave the tag out"
    ),
    "a:\n  - !mine x": "r.yaml:2: a[0]: found the tag !mine: recipes hold plain values only\n    leave the tag out",
    "a: &x {b: 1}\nc:\n  <<: *x": (
        "r.yaml:3: c.<<: found the merge key <<, which recipes do not have\n"
        "    to build on another recipe write `extends: other.yaml`; to repeat a value write *its_anchor"
    ),
    "a: &x [*x]": "r.yaml:1: found *x inside the value that &x names: it would contain itself",
    "a: *x": "r.yaml:1: a: found *x, but nothing before it is marked &x",
    "a: 1\n---\nb: 2": "r.yaml:2: found a second document (after `---`), wanted one recipe in a file",
    "a: 1\n7: b": "r.yaml:2: found 7 as a key, wanted a name\n    put it in quotes if it is meant as a name",
    "true: b": "r.yaml:1: found true as a key, wanted a name\n    put it in quotes if it is meant as a name",
    f"? {'k' * 201}\n: b": "r.yaml:1: found a text of 201 characters as a key, wanted a name",
    "? [a, b]\n: 3": "r.yaml:1: found a list or mapping as a key, wanted a name",
    "a: &x [1]\n*x : 3": "r.yaml:2: found a list or mapping as a key, wanted a name",
    "": "r.yaml:1: the file is empty, wanted a recipe with at least a name and a model",
    "# nothing\n": "r.yaml:1: the file is empty, wanted a recipe with at least a name and a model",
    "{}": "r.yaml:1: the recipe is empty, wanted at least a name and a model",
    "- a": "r.yaml:1: found a list, wanted a recipe: keys with values, such as `name: first`",
    "\nword": "r.yaml:2: found a single value, wanted a recipe: keys with values, such as `name: first`",
    "a: .nan": "r.yaml:1: a: found .nan, wanted a finite number",
    "a: 1\nb: -.inf": "r.yaml:2: b: found -.inf, wanted a finite number",
    "a: 1e999": "r.yaml:1: a: found 1e999, wanted a number that is not too large (at most 1.8e308)",
    "a: " + "9" * 5000: "r.yaml:1: a: found a whole number of 5000 digits, wanted one of at most 18",
    'a: "\\0"': "r.yaml:1: a: found the control character U+0000 in a text, wanted printable text",
    'a: "\\ud800"': "r.yaml:1: a: found the control character U+D800 in a text, wanted printable text",
    "a: 1\nb: \x07": "r.yaml:2: found the control character U+0007, wanted printable text",
    "a:\n\tb: 1": (
        "r.yaml:2: this is not YAML: found character '\\t' that cannot start any token\n"
        "    indent with spaces: YAML allows no tabs there"
    ),
    "a: 1\nb: {c: 1\n": (
        "r.yaml:3: this is not YAML: expected ',' or '}', but got the end"
        " (while parsing a flow mapping that starts on line 2)"
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_refused_with_line_and_reason(text: str) -> None:
    assert refusal(text) == REFUSED[text]


def test_escapes_beyond_unicode_are_refused() -> None:
    assert refusal('a: 1\nb: "\\UFFFFFFFF"').startswith("r.yaml:2: this is not YAML")


def test_bytes_that_are_not_utf8_are_named_with_their_offset() -> None:
    expected = "r.yaml:2: found the byte 0xFF at offset 8, which is not UTF-8\n    save the file as UTF-8"
    assert refusal(b"a: 1\nb: \xff") == expected
    assert "offset 0" in refusal("a: 1".encode("utf-16"))


@pytest.mark.parametrize("text", ["[" * 100_000, "- " * 90_000, "{a: " * 50_000, "a: " + "[\n" * 90_000])
def test_deep_nesting_is_refused(text: str) -> None:
    assert "found lists and mappings nested deeper than 64 levels" in refusal(text)


def test_nesting_of_64_levels_is_read_and_one_more_through_an_alias_is_not() -> None:
    assert read("a: " + "[" * 63 + "]" * 63)
    assert "through *x" in refusal("a: &x " + "[" * 40 + "]" * 40 + "\nb: " + "[" * 30 + "*x" + "]" * 30)


def test_aliases_that_explode_are_refused() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    expected = "r.yaml:4: found more than 10,000 values, aliases counted as often as they repeat something"
    assert refusal("\n".join(lines)) == expected


def test_large_files_are_refused_unread() -> None:
    assert (
        refusal(b"#" * (MAX_RECIPE_BYTES + 1))
        == "r.yaml:1: the file is larger than 200 kB, which no recipe needs to be"
    )


def test_several_mistakes_are_listed_and_endless_ones_are_cut() -> None:
    assert refusal("a: !x 1\nb: .inf\nb: 2").count("r.yaml:") == 3
    assert refusal("a: 1\n" * 4000).count("r.yaml:") == 50


def test_a_value_of_an_override_has_no_line() -> None:
    node = read_value("{a: [1, 2e-5]}", "override 'x'")
    assert to_plain(node) == {"a": [1, 2e-5]}
    assert node.location.source == "override 'x'"
    assert node.location.line is None
