import gzip
import json
import pickle

import pytest

from kit import DataError, Example

PAIRS = [Example("a b", "x"), Example("c", "y z")]


@pytest.fixture
def forms(file):
    return {
        "lines": {"train": {"source": file("t.en", "a b\nc\n"), "target": file("t.de", "x\ny z\n")}},
        "gzip": {"train": {"source": file("g.en", gzip.compress(b"a b\nc\n")), "target": "t.de"}},
        "tsv": {"train": file("t.tsv", "a b\tx\nc\ty z\n")},
        "tsv columns": {"train": file("u.txt", "1\tx\ta b\n2\ty z\tc\n"), "format": "tsv", "source": 3, "target": 2},
        "jsonl": {"train": file("t.jsonl", '{"source": "a b", "target": "x"}\n{"target": "y z", "source": "c"}\n')},
        "jsonl keys": {
            "train": file(
                "k.jsonl.gz", gzip.compress(b'{"t": {"en": "a b", "de": "x"}}\n{"t": {"de": "y z", "en": "c"}}')
            ),
            "source": "t.en",
            "target": "t.de",
        },
        "scan": {"train": file("s.txt", "IN: a b OUT: x\nIN: c OUT: y z\n"), "format": "scan"},
    }


@pytest.mark.parametrize("form", ["lines", "gzip", "tsv", "tsv columns", "jsonl", "jsonl keys", "scan"])
def test_every_form_gives_the_pairs(make, forms, form):
    data = make("parallel_text", **forms[form])
    data.prepare()
    examples = data.open("train")
    assert list(examples) == PAIRS and examples[-1] == PAIRS[1] and examples[:1] == PAIRS[:1]
    assert list(pickle.loads(pickle.dumps(examples))) == PAIRS
    assert data.splits() == ("train",) and data.task == "pairs" and data.labels() == ()
    assert examples[0].accepted == ("x",)


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("a.tsv", "a\tb\na b\n", {}, r"a\.tsv:2: 2 columns were wanted \(source, target\), found 1"),
        ("a.tsv", "a\tb\nc\t \n", {}, r"a\.tsv:2: the target is empty"),
        ("a.tsv", "a\tb\n", {"source": 1, "target": 3}, r"a\.tsv:1: at least 3 columns were wanted, found 2"),
        ("a.tsv", "a\tb\n", {"source": "x"}, "columns are numbers from 1 on in TSV"),
        ("a.jsonl", '{"source": "a"\n', {}, r"a\.jsonl:1: an object of JSON was wanted: .* at character"),
        ("a.jsonl", '{"source": "a"}\n', {}, r"a\.jsonl:1: the key 'target' was wanted, found keys 'source'"),
        ("a.jsonl", '["a"]\n', {}, r"a\.jsonl:1: the key 'source' was wanted, found list"),
        ("a.jsonl", '{"source": "a", "target": ["b"]}\n', {}, r"a text was wanted at the key 'target', found list"),
        (
            "a.txt",
            "IN: a OUT: b\nIN a OUT b\n",
            {"format": "scan"},
            r"a\.txt:2: «IN: … OUT: …» was wanted, found 'IN a",
        ),
        ("a.txt", "a\tb\n", {}, r"a\.txt: its name does not say what format it is in; tsv, jsonl, scan"),
    ],
)
def test_a_malformed_line_is_named_with_what_was_wanted(make, file, name, content, options, message):
    data = make("parallel_text", train=file(name, content), **options)
    with pytest.raises(DataError, match=message):
        list(data.open("train"))


def test_files_that_do_not_go_together_are_named(make, file):
    data = make("parallel_text", train={"source": file("a.en", "1\n2\n3\n"), "target": file("a.de", "1\n2\n")})
    with pytest.raises(DataError, match=r"a\.de:2: it has 2 lines and .*a\.en has 3"):
        data.prepare()
    data = make("parallel_text", train={"source": file("b.en", "1\n\n"), "target": file("b.de", "1\n2\n")})
    with pytest.raises(DataError, match=r"b\.en:2: the line is empty"):
        list(data.open("train"))
    with pytest.raises(DataError, match=r"no such file: 'none\.tsv'"):
        make("parallel_text", train="none.tsv").prepare()
    with pytest.raises(DataError, match="there is no test split"):
        data.open("test")


def test_the_fingerprint_is_of_the_content_not_the_place(make, file, tmp_path):
    one = make("parallel_text", train=file("one.tsv", "a\tb\n")).fingerprint()
    assert make("parallel_text", train=file("two.tsv", "a\tb\n")).fingerprint() == one
    packed = file("three.tsv.gz", gzip.compress(b"a\tb\n"))
    assert make("parallel_text", train=packed).fingerprint() == one
    assert make("parallel_text", train=file("four.tsv", "a\tc\n")).fingerprint() != one
    assert make("parallel_text", train="one.tsv", validation="one.tsv").fingerprint() != one


def test_multi30k(make, shared):
    names = {"train": "train", "validation": "val", "test": "test_2016_flickr"}
    files = {split: {"source": f"{name}.en", "target": f"{name}.de"} for split, name in names.items()}
    data = make("parallel_text", folder=shared / "multi30k", **files)
    assert [len(data.open(split)) for split in data.splits()] == [29_000, 1_014, 1_000]
    assert data.open("train")[0].source == "Two young, White males are outside near many bushes."


def test_scan(make, shared):
    data = make("parallel_text", folder=shared / "scan", train="tasks_train_simple.txt", format="scan")
    examples = list(data.open("train"))
    assert len(examples) == 16_728
    assert all(action.startswith("I_") for example in examples for action in example.target.split())


def test_json_that_is_not_text_is_written_out(make, file):
    data = make("parallel_text", train=file("n.jsonl", json.dumps({"source": 3, "target": 0.5}) + "\n"))
    assert data.open("train")[0] == Example("3", "0.5")
