"""What every tokenizer promises."""

import json
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit import KitError, Special, Tokenizer
from kit_tokenizer import kit_components
from kit_tokenizer.fast_tokenizer import SPECIAL_TOKENS

PARTS = {part.name(): part for part in kit_components()}
TEXTS = ["the cat sat on the mat", "the dog sat on the log", "Übermut tut selten gut", "naïve café ☃", "a\nb\tc"] * 3
OPTIONS = {"bpe": {"vocab_size": 300}, "unigram": {"vocab_size": 300}}


def make(name, texts=TEXTS, **options) -> Tokenizer:
    part = PARTS[name]
    tokenizer = part(part.options_type(**{**OPTIONS.get(name, {}), **options}))
    tokenizer.train(iter(texts))
    return tokenizer


TRAINED = {name: make(name) for name in PARTS}
every = pytest.mark.parametrize("name", sorted(PARTS))


@pytest.mark.parametrize("name", ["bytes", "bpe", "unigram"])
@given(text=st.text())
@settings(deadline=None, max_examples=150)
def test_any_text_comes_back_exactly_from_bytes(name, text):
    ids = TRAINED[name].encode(text)
    assert TRAINED[name].decode(ids) == text
    assert all(len(Special) <= number < TRAINED[name].size for number in ids)


@given(text=st.text(st.sampled_from(sorted(set("".join(TEXTS))))))
@settings(deadline=None)
def test_any_text_of_seen_characters_comes_back_exactly(text):
    ids = TRAINED["characters"].encode(text)
    assert len(ids) == len(text)
    assert TRAINED["characters"].decode(ids) == text


@given(words=st.lists(st.sampled_from(" ".join(TEXTS).split())))
@settings(deadline=None)
def test_any_sequence_of_seen_words_comes_back(words):
    ids = TRAINED["words"].encode(" ".join(words))
    assert len(ids) == len(words)
    assert TRAINED["words"].decode(ids) == " ".join(words)


@every
@given(text=st.lists(st.sampled_from([*SPECIAL_TOKENS, "<padding>", "< ", ">", "end", " "])).map("".join))
@settings(deadline=None, max_examples=40)
def test_no_text_spells_a_special_token(name, text):
    assert set(TRAINED[name].encode(text)) & set(Special) <= {Special.UNKNOWN}
    learnt_from_them = make(name, [*SPECIAL_TOKENS, text] * 3)
    assert set(learnt_from_them.encode(text)) & set(Special) <= {Special.UNKNOWN}


@every
def test_the_same_texts_give_the_same_tokenizer(name):
    assert len({make(name).fingerprint() for _ in range(4)}) == 1
    if name != "bytes":
        assert make(name, [*TEXTS, "quite other words, quite other words"]).fingerprint() != TRAINED[name].fingerprint()


@every
def test_saved_and_loaded_or_pickled_it_is_the_same(name, tmp_path):
    tokenizer = TRAINED[name]
    tokenizer.save(tmp_path / "run")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["tokenizer.json"]
    json.loads((tmp_path / "run" / "tokenizer.json").read_text())
    loaded = PARTS[name](tokenizer.options)
    loaded.load(tmp_path / "run")
    for other in (loaded, pickle.loads(pickle.dumps(tokenizer))):
        assert other.fingerprint() == tokenizer.fingerprint()
        assert other.encode_batch(TEXTS) == tokenizer.encode_batch(TEXTS)


@every
def test_what_cannot_be_loaded_is_named(name, tmp_path):
    tokenizer = PARTS[name](PARTS[name].options_type())
    with pytest.raises(KitError, match="train or load it first"):
        tokenizer.encode("a")
    with pytest.raises(KitError, match=r"tokenizer\.json: cannot read"):
        tokenizer.load(tmp_path)
    (tmp_path / "tokenizer.json").write_text('{"model": 3}')
    with pytest.raises(KitError, match=r"tokenizer\.json: this is not a tokenizer"):
        tokenizer.load(tmp_path)
    TRAINED["bytes"].save(tmp_path)
    swapped = json.loads((tmp_path / "tokenizer.json").read_text())
    vocabulary = swapped["model"]["vocab"]
    vocabulary[SPECIAL_TOKENS[0]], vocabulary[SPECIAL_TOKENS[1]] = 1, 0
    (tmp_path / "tokenizer.json").write_text(json.dumps(swapped))
    with pytest.raises(KitError, match="whose first tokens are"):
        tokenizer.load(tmp_path)


@every
def test_decoding_leaves_out_special_tokens_and_shows_unknown_ones(name):
    tokenizer = TRAINED[name]
    ids = tokenizer.encode("the cat")
    around = [Special.START, *ids, Special.END, Special.PADDING, Special.MASK, Special.SEPARATOR]
    assert tokenizer.decode(around) == "the cat"
    assert "�" in tokenizer.decode([Special.UNKNOWN, *ids])
    assert tokenizer.decode([]) == ""
    assert tokenizer.token(Special.END) == "<end>"


@every
def test_a_tokenizer_that_saw_nothing_still_works(name):
    tokenizer = make(name, [])
    assert tokenizer.size >= len(Special)
    assert len(tokenizer.encode("é x")) > 0


def test_phonemes_are_words():
    tokenizer = make("words", ["HH AH L OW", "W ER L D"])
    assert tokenizer.size == len(Special) + 7
    assert [tokenizer.token(number) for number in tokenizer.encode("W OW")] == ["W", "OW"]
    assert tokenizer.encode("W XX") == [*tokenizer.encode("W"), Special.UNKNOWN]
    assert tokenizer.decode([*tokenizer.encode("W"), Special.UNKNOWN, *tokenizer.encode("D")]) == "W � D"


def test_words_keep_to_their_size_and_minimum():
    assert make("words", ["a a a b b c"], vocab_size=len(Special) + 2).decode(range(99)) == "� a b"
    assert make("words", ["a a a b b c"], min_frequency=3).size == len(Special) + 1
    assert len(make("words", ["a, b!"], split="punctuation").encode("a, b!")) == 4


def test_characters_that_are_too_rare_are_unknown():
    assert make("characters", ["aab"], min_frequency=2).encode("ab") == [len(Special), Special.UNKNOWN]


def test_a_byte_is_its_value_after_the_special_tokens():
    assert TRAINED["bytes"].encode("aé") == [len(Special) + byte for byte in "aé".encode()]
    assert TRAINED["bytes"].size == len(Special) + 256


@pytest.mark.parametrize("name", ["bpe", "unigram"])
def test_pieces_are_learnt_up_to_the_size_and_shorten_text(name):
    texts = ["lower lowest newer newest wider widest"] * 5
    small, large = make(name, texts, vocab_size=264), make(name, texts, vocab_size=290)
    assert small.size <= 264 and large.size <= 290
    assert len(large.encode(texts[0])) < len(small.encode(texts[0])) < len(texts[0])


def test_pieces_of_words_longer_than_any_are_learnt_in_bounded_memory():
    tokenizer = make("unigram", ["ab" * 50_000, "ab"], vocab_size=300)
    assert tokenizer.decode(tokenizer.encode("ab" * 40)) == "ab" * 40
    assert len(tokenizer.encode("ab" * 40)) < 20


@pytest.mark.parametrize("name", ["characters", "words", "bytes", "bpe", "unigram"])
def test_text_can_be_made_uniform_first(name):
    assert make(name, lowercase=True).encode("THE Cat") == make(name, lowercase=True).encode("the cat")
    composed = make(name, ["café"], unicode="nfc")
    assert composed.encode("cafe\u0301") == composed.encode("caf\u00e9")
