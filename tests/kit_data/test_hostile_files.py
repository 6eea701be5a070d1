"""Files that break readers: each record is read, or refused in a few printable lines with its file and line."""

from __future__ import annotations

import gzip
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kit import DataError
from kit_data.records import quoted

DEEP = "[" * 200_000
HALF = "\\ud800"
LABELLED = {
    "csv with CR": ("a.csv", "label,text\ryes,a\rno,b\r", r"a\.csv:1: a carriage return was found outside quotes"),
    "csv with CR and no header": ("a.csv", "yes,a\rno,b\r", r"a\.csv:1: a carriage return was found outside quotes"),
    "csv with one CR": ("a.csv", "label,text\nyes,a\nno,b\rc\n", r"a\.csv:3: a carriage return was found outside"),
    "csv with a broken header": ("a.csv", 'label,"te"xt\nyes,a\n', r"a\.csv:1: a record of CSV was wanted"),
    "csv with a huge header": ("a.csv", "a" * 200_000 + ",b\nyes,a\n", r"a\.csv:1: a record of CSV was wanted"),
    "csv with many columns": (
        "a.csv",
        "c\u200b," * 50_000 + "\n",
        r"a\.csv:1: a header .* found 'c\\u200b', .*, \.\.\.",
    ),
    "csv with a marked column": (
        "a.csv",
        "\u200blabel,text\nyes,a\n",
        r"(?s)column 'label' was wanted, found '\\u200blabel', 'text'.*cannot be seen: \\u200b \(ZERO WIDTH SPACE\)",
    ),
    "tsv with CR": ("a.tsv", "yes\ta\rno\tb\r", r"a\.tsv:1: a carriage return was found inside the only line"),
    "jsonl with CR": ("a.jsonl", '{"label": 1}\r{"label": 2}\r', r"a\.jsonl:1: a carriage return was found inside"),
    "deep list": ("a.jsonl", DEEP, r"a\.jsonl:1: an object of JSON was wanted, found one that is nested too deep"),
    "deep value": ("a.jsonl", '{"label": "a", "text": "b"}\n{"label": ' + DEEP, r"a\.jsonl:2: .* nested too deep"),
    "deep objects": ("a.jsonl", '{"a": ' * 100_000 + "1" + "}" * 100_000, r"a\.jsonl:1: .* nested too deep"),
    "half a character": (
        "a.jsonl",
        '{"label": "a", "text": "b' + HALF + '"}',
        r"a\.jsonl:1: \\ud800 alone was found at the key 'text', which is half of a surrogate pair",
    ),
    "half a label": ("a.jsonl", '{"label": "\\udfff", "text": "b"}', r"\\udfff alone was found at the key 'label'"),
    "half a key": ("a.jsonl", '{"' + HALF + '": "a"}', r"the key 'label' was wanted, found keys '\\ud800'"),
    "digits": ("a.jsonl", '{"label": ' + "1" * 5000 + "}", r"a\.jsonl:1: a number of at most 4300 digits was wanted"),
    "many keys": (
        "a.jsonl",
        json.dumps({f"key {number}\n{'x' * 500}": 1 for number in range(5000)}),
        r"found keys 'key 0\\nx+\.\.\.', .*, \.\.\.",
    ),
}


@pytest.mark.parametrize("case", LABELLED)
def test_a_file_that_breaks_readers_is_refused_with_its_line(make, file, case):
    name, content, message = LABELLED[case]
    with pytest.raises(DataError, match=message) as caught:
        list(make("labelled_text", train=file(name, content)).open("train"))
    hold(str(caught.value))


def hold(message: str) -> None:
    """A message is short, printable and can be written to any terminal that takes UTF-8."""
    message.encode()
    assert len(message) < 3_000
    assert all(each == "\n" or each.isprintable() for each in message)
    assert len(message.splitlines()) <= 3


def test_whole_characters_in_json_are_read(make, file):
    data = make("labelled_text", train=file("a.jsonl", '{"label": "a", "text": "\\ud83d\\ude00"}'))
    assert data.open("train")[0].source == "😀"


def test_a_carriage_return_in_quotes_is_text(make, file):
    data = make("labelled_text", train=file("a.csv", 'label,text\nyes,"a\rb"\n'))
    assert data.open("train")[0].source == "a\rb"


def test_pairs_in_files_with_carriage_returns_alone_are_not_one_pair(make, file):
    sides = {"source": file("a.en", "a\rb\r"), "target": file("a.de", "x\ry\r")}
    for train in (sides, file("a.tsv", "a\tx\rb\ty\r"), file("a.tsv.gz", gzip.compress(b"a\tx\rb\ty"))):
        with pytest.raises(DataError, match=r"a\.\w+(\.gz)?:1: a carriage return .*\n    if they end with CR: tr"):
            make("parallel_text", train=train).open("train")
    assert make("parallel_text", train=file("b.tsv", "a\tx\r")).open("train")[0].target == "x"


def test_a_record_of_scan_is_shown_cut(make, file):
    data = make("parallel_text", train=file("a.txt", "IN\x00 \u202e" + "x" * 100_000), format="scan")
    with pytest.raises(DataError, match=r"found 'IN\\x00 \\u202exxx") as caught:
        data.open("train")[0]
    hold(str(caught.value))


def test_pieces_of_a_file_are_quoted_cut_and_counted():
    assert quoted(["a", "b\nc"]) == "'a', 'b\\nc'"
    assert quoted("abcdefghij", most=3) == "'a', 'b', 'c', ..."
    assert quoted(["x" * 100], longest=4) == "'xxxx...'"


PIECES = [
    b"\r", b"\n", b"\r\n", b'"', b'""', b",", b"\t", b"{", b"}", b"[", b"]", b":", b"\\", b"\\ud800", b"\x00",
    b"\\u0000", b"\x1b[31m", b"\xe2\x80\xae", b"\xe2\x80\x8b", b"\xc2\xa0", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf",
    b"NaN", b"null", b"1e999", b"-0", b"9" * 5000, b'"label"', b'"text"', b"label,text", b"label\ttext", b"IN: ",
    b" OUT: ", b" ", b"a",
    b'{"label": "a", "text": "b"}', b'{"source": "a", "target": "b"}', b"[" * 5000, b'{"a":' * 5000,
]  # fmt: skip
READERS = [
    ("labelled_text", {"format": "csv"}),
    ("labelled_text", {"format": "csv", "label": 1, "text": 2}),
    ("labelled_text", {"format": "tsv"}),
    ("labelled_text", {"format": "tsv", "label": "label", "text": "text"}),
    ("labelled_text", {"format": "jsonl"}),
    ("parallel_text", {"format": "tsv"}),
    ("parallel_text", {"format": "jsonl"}),
    ("parallel_text", {"format": "scan"}),
    ("plain_text", {"documents": "line", "validation_fraction": 0.0}),
    ("plain_text", {"documents": "file", "validation_fraction": 0.0}),
]


@settings(max_examples=150, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(content=st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join), packed=st.booleans())
def test_mixed_pieces_are_read_or_refused(make, file, content, packed):
    name = file("mixed.gz" if packed else "mixed", gzip.compress(content) if packed else content)
    for part, options in READERS:
        try:
            examples = list(make(part, train=name, **options).open("train"))
        except DataError as error:
            hold(str(error))
        else:
            for example in examples:
                "".join(filter(None, (example.source, example.target, example.label))).encode()
