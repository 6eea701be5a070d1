import pickle
import sys

import datasets
import pytest
from pydantic import ValidationError

from kit import DataError, Example


@pytest.fixture
def folder(tmp_path):
    features = datasets.Features(
        {
            "review": datasets.Value("string"),
            "stars": datasets.ClassLabel(names=["bad", "good"]),
            "translation": {"en": datasets.Value("string"), "de": datasets.Value("string")},
        }
    )
    rows = [{"review": f"text {n}", "stars": n % 2, "translation": {"en": f"a {n}", "de": f"b {n}"}} for n in range(4)]
    whole = datasets.Dataset.from_list(rows, features=features)
    datasets.DatasetDict({"train": whole, "dev": whole.select([0])}).save_to_disk(str(tmp_path / "reviews"))
    return "reviews"


def test_a_saved_folder_gives_pairs_classes_or_texts(make, folder):
    pairs = make("huggingface", dataset=folder, source="translation.en", target="translation.de", validation="dev")
    pairs.prepare()
    assert pairs.splits() == ("train", "validation") and pairs.task == "pairs"
    assert pairs.open("train")[3] == Example("a 3", "b 3") and len(pairs.open("train")) == 4
    classes = make("huggingface", dataset=folder, text="review", label="stars")
    assert list(classes.open("train"))[:2] == [Example("text 0", label="bad"), Example("text 1", label="good")]
    assert classes.labels() == ("bad", "good") and classes.splits() == ("train",)
    texts = make("huggingface", dataset=folder, text="review")
    assert texts.task == "text" and texts.open("train")[1] == Example("text 1")
    assert pickle.loads(pickle.dumps(texts.open("train")))[1] == Example("text 1")


def test_the_fingerprint_is_the_same_from_load_to_load(make, folder):
    prints = {make("huggingface", dataset=folder, text="review").fingerprint() for _ in range(2)}
    assert len(prints) == 1
    assert make("huggingface", dataset=folder, text="review", label="stars").fingerprint() not in prints


def test_what_is_not_there_is_named_with_what_is(make, folder, monkeypatch):
    with pytest.raises(DataError, match=r"no column 'txt' in the dataset reviews; there are: 'review', 'stars'"):
        make("huggingface", dataset=folder, text="txt").prepare()
    with pytest.raises(DataError, match="no split 'test' in the dataset reviews; there are: 'train', 'dev'"):
        make("huggingface", dataset=folder, text="review").open("test")
    with pytest.raises(DataError, match=r"row 0 of the dataset reviews: the key 'translation\.fr' was wanted"):
        make("huggingface", dataset=folder, text="translation.fr").open("train")[0]
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match=r"pip install 'kitformer\[huggingface\]'"):
        make("huggingface", dataset=folder, text="review").prepare()


def test_columns_that_make_no_task_are_refused(make):
    with pytest.raises(ValidationError, match="were wanted; found: label, source"):
        make("huggingface", dataset="x", source="a", label="b")


def test_a_row_without_a_class_is_not_taken_for_one_of_the_last_class(make, tmp_path):
    features = datasets.Features(
        {"review": datasets.Value("string"), "stars": datasets.ClassLabel(names=["bad", "good"])}
    )
    rows = [{"review": "text 0", "stars": 1}, {"review": "text 1", "stars": -1}]
    whole = datasets.Dataset.from_list(rows, features=features)
    datasets.DatasetDict({"train": whole.select([0]), "test": whole}).save_to_disk(str(tmp_path / "hidden"))
    classes = make("huggingface", dataset="hidden", text="review", label="stars")
    assert classes.open("test")[0] == Example("text 0", label="good")
    with pytest.raises(DataError, match=r"(?s)row 1 of the dataset hidden: .*'stars' is -1.*0 to 1.*test: null"):
        classes.open("test")[1]
    assert make("huggingface", dataset="hidden", text="review", label="stars", test=None).splits() == ("train",)
