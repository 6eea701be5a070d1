import gzip
import os
import pickle
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kit import DataError, Example, Lines, ParsedLines
from kit.data import lines as indexing


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n")), min_size=1), st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
def test_lines_are_what_was_written_whether_or_not_the_last_one_is_ended(tmp_path, texts, ended):
    content = "\n".join(texts) + ("\n" if ended or not texts[-1] else "")
    path = tmp_path / f"{abs(hash(content))}.txt"
    path.write_text(content, encoding="utf-8", newline="")
    if content.encode() in (b"", b"\xef\xbb\xbf"):
        return
    lines = list(Lines(path))
    assert lines == [texts[0].removeprefix("\ufeff"), *texts[1:]]


def test_line_ends_of_windows_a_byte_order_mark_and_blank_lines(tmp_path):
    lines = Lines(write(tmp_path / "a.txt", b"\xef\xbb\xbfone\r\n\r\ntwo\r\nthree"))
    assert list(lines) == ["one", "", "two", "three"]
    assert lines[-1] == "three" and lines[1:3] == ["", "two"]
    assert list(lines.blank()) == [False, True, False, False]
    with pytest.raises(IndexError):
        lines[4]


def test_gzip_reads_as_what_is_inside_and_has_the_same_digest(tmp_path):
    text = "ä\nb\n" * 1000
    plain = Lines(write(tmp_path / "a.txt", text))
    packed = Lines(write(tmp_path / "a.txt.gz", gzip.compress(text.encode())))
    assert list(packed) == list(plain)
    assert packed.digest == plain.digest


def test_chunks_that_end_inside_a_character_or_a_quote_make_no_difference(tmp_path, monkeypatch):
    monkeypatch.setattr(indexing, "CHUNK", 3)
    assert list(Lines(write(tmp_path / "a.txt", "äöü\n☃☃\n𝄞"))) == ["äöü", "☃☃", "𝄞"]
    quoted = Lines(write(tmp_path / "b.csv", 'a,"x\ny"\nb,"say ""no"""\n'), quoted=True)
    assert list(quoted) == ['a,"x\ny"', 'b,"say ""no"""']
    assert [quoted.line_number(i) for i in range(2)] == [1, 3]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"fine\nfine\nM\xfcnchen\n", r"a\.txt:3: not UTF-8: byte 0xfc"),
        (b"fine\n\xe2\x98", r"a\.txt:2: not UTF-8: the file ends inside a character"),
        (b"", r"a\.txt: the file is empty"),
        (b"\x1f\x8bnot gzip", r"a\.txt: damaged gzip"),
        (gzip.compress(b"a\n" * 5000, mtime=0)[:-12], r"a\.txt: damaged gzip"),
    ],
)
@pytest.mark.parametrize("chunk", [2, 1 << 22])
def test_a_damaged_file_is_named_with_the_line(tmp_path, monkeypatch, content, message, chunk):
    monkeypatch.setattr(indexing, "CHUNK", chunk)
    with pytest.raises(DataError, match=message):
        Lines(write(tmp_path / "a.txt", content))


def test_a_quote_that_is_never_closed_is_named_where_its_record_starts(tmp_path):
    with pytest.raises(DataError, match=r"a\.csv:2: a double quote is opened and never closed"):
        Lines(write(tmp_path / "a.csv", 'a,b\nc,"d\ne,f\n'), quoted=True)


def test_a_changed_file_is_read_anew_and_a_read_only_folder_is_no_hindrance(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    path = write(folder / "a.txt", "one\n")
    folder.chmod(0o555)
    assert list(Lines(path)) == ["one"]
    assert os.listdir(folder) == ["a.txt"]
    folder.chmod(0o755)
    write(path, "two\n")
    os.utime(path, ns=(1, 1))
    assert list(Lines(path)) == ["two"]


def test_a_pickled_copy_reads_the_same_and_carries_no_content(tmp_path):
    lines = Lines(write(tmp_path / "a.txt", "line\n" * 10_000))
    copy = pickle.dumps(lines)
    assert len(copy) < 1000
    assert list(pickle.loads(copy)) == list(lines)


def test_memory_does_not_grow_with_the_file(tmp_path):
    def peak(count):
        path = write(tmp_path / f"{count}.txt", b"some words on a line of text\n" * count)
        tracemalloc.start()
        lines = Lines(path)
        assert lines[count - 1] == "some words on a line of text"
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    small, large = peak(400_000), peak(1_600_000)
    assert large < 1.2 * small


def test_text_is_cut_between_characters_and_where_it_reads_well(tmp_path):
    lines = Lines(write(tmp_path / "a.txt", "ab cd\nef☃☃"))
    assert lines.border(5, 4) == 3
    assert lines.border(7, 4) == 6
    assert [lines.border(offset) for offset in (8, 9, 10, 11, 12, 99)] == [8, 8, 8, 11, 11, 14]


def test_a_record_that_cannot_be_parsed_is_named_with_file_and_line(tmp_path):
    def parse(record):
        if not record.isdigit():
            raise ValueError(f"a number was wanted, found {record!r}")
        return Example(record)

    examples = ParsedLines(Lines(write(tmp_path / "a.txt", "header\n1\n2\nx\n")), parse, first=1)
    assert [examples[0].source, examples[1].source] == ["1", "2"]
    assert len(examples) == 3
    with pytest.raises(DataError, match=r"a\.txt:4: a number was wanted, found 'x'"):
        examples[-1]


def test_a_line_is_parsed_with_its_place_in_the_message(tmp_path):
    lines = Lines(write(tmp_path / "a.csv", '"1\n"\n2\nx\n'), quoted=True)
    assert lines.parse(0, len) == 4 and lines.parse(1, int) == 2
    with pytest.raises(DataError, match=r"a\.csv:4: invalid literal for int"):
        lines.parse(2, int)


def test_text_of_a_file_in_a_message_is_cut_and_can_be_seen(tmp_path):
    lines = Lines(write(tmp_path / "a.txt", "a\x1b[2Jb\u202ec\u200b" + "d" * 100_000 + "\n"))
    said = str(lines.error(0, f"a number was wanted, found {lines[0]}"))
    assert "found a\\x1b[2Jb\\u202ec\\u200bddd" in said and len(said) < 3_000
    assert "\\x1b (CONTROL CODE), \\u202e (RIGHT-TO-LEFT OVERRIDE), \\u200b (ZERO WIDTH SPACE)" in said
    assert all(each == "\n" or each.isprintable() for each in said)
