import pytest

from kit import DataError, Example
from kit.data.token_store import encode_split
from kit.data.tokenizers import Tokenizers
from kit_tokenizer import kit_components as tokenizer_parts

EXAMPLES = [Example("good, really\ngood", label="yes"), Example("bad", label="no")]


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("a.csv", 'label,text\nyes,"good, really\ngood"\nno,bad\n', {}),
        ("a.csv", 'id,review,stars\n1,"good, really\ngood",yes\n2,bad,no\n', {"label": "stars", "text": "review"}),
        ("a.csv", '"good, really\ngood",yes\nbad,no\n', {"label": 2, "text": 1}),
        ("a.jsonl", '{"label": "yes", "text": "good, really\\ngood"}\n{"label": "no", "text": "bad"}\n', {}),
    ],
)
def test_csv_and_json_lines_give_the_examples(make, file, name, content, options):
    data = make("labelled_text", train=file(name, content), **options)
    assert list(data.open("train")) == EXAMPLES
    assert data.labels() == ("no", "yes") and data.task == "labelled"


def test_tsv_is_label_and_text_or_as_a_header_says(make, file):
    plain = make("labelled_text", train=file("a.tsv", 'yes\tsay "hi"\nno\tbad\n'))
    assert list(plain.open("train")) == [Example('say "hi"', label="yes"), Example("bad", label="no")]
    named = make("labelled_text", train=file("b.tsv", "t\tl\ngood\tyes\n"), label="l", text="t")
    assert list(named.open("train")) == [Example("good", label="yes")]


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        (
            "a.csv",
            "class,text\nx,y\n",
            {},
            r"a\.csv:1: a header with the column 'label' was wanted, found 'class', 'text'",
        ),
        ("a.csv", 'label,text\nx,"y\nz"\nx\n', {}, r"a\.csv:4: 2 columns were wanted \(label, text\), found 1"),
        ("a.csv", 'label,text\nx,"y"z\n', {}, r"a\.csv:2: a record of CSV was wanted"),
        ("a.tsv", "yes\tno\tmaybe\n", {}, r"a\.tsv:1: 2 columns were wanted \(label, text\), found 3"),
        ("a.txt", "yes no\n", {}, r"a\.txt: its name does not say"),
    ],
)
def test_a_malformed_file_is_named(make, file, name, content, options, message):
    with pytest.raises(DataError, match=message):
        list(make("labelled_text", train=file(name, content), **options).open("train"))


def test_a_label_that_training_never_shows_is_named_with_its_line(make, file, tmp_path):
    data = make("labelled_text", train=file("a.tsv", "yes\ta\nno\tb\n"), validation=file("v.tsv", "yes\ta\nmaybe\tb\n"))
    part = next(part for part in tokenizer_parts() if part.name() == "bytes")
    tokenizer = part(part.options_type())
    tokenizer.train([])
    with pytest.raises(DataError, match=r"v\.tsv:2: the label 'maybe' is one that no training .*'no', 'yes'"):
        encode_split(data, "validation", Tokenizers.one(tokenizer))
