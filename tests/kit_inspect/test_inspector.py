"""A record says what each query took of each key, for every family of model."""

from __future__ import annotations

from itertools import count, islice

import pytest
import torch
from models.tiny_models import build

from kit import AttentionMap, AttentionRecord, AttentionRecorder, Example, ExampleIds, Inspector, TokenBatch
from kit.data.tokenizers import Tokenizers
from kit.errors import KitError
from kit.inspection.example_reader import ExampleReader
from kit_attention.fourier import FourierOptions
from kit_attention.sigmoid import SigmoidOptions


def test_an_encoder_decoder_shows_all_three_attentions(pairs: Inspector) -> None:
    record = pairs.record(("1 2 3", "3 2 1"))
    assert record.source is not None and record.target is not None and not record.generated
    assert record.source.tokens == ("1", "2", "3", "<end>")
    assert record.target.tokens == ("<start>", "3", "2", "1")
    assert record.target.next_tokens == ("3", "2", "1", "<end>")
    assert record.source.special == (False, False, False, True) and record.source.next_tokens is None
    assert [(it.site, it.kind, it.layer, tuple(it.weights.shape)) for it in record.maps] == [
        ("encoder.0.attention", "encoder", 0, (2, 4, 4)),
        ("encoder.1.attention", "encoder", 1, (2, 4, 4)),
        ("decoder.0.attention", "decoder", 0, (4, 4, 4)),
        ("decoder.0.cross_attention", "cross", 0, (2, 4, 4)),
        ("decoder.1.attention", "decoder", 1, (4, 4, 4)),
        ("decoder.1.cross_attention", "cross", 1, (2, 4, 4)),
    ]
    assert torch.equal(record["decoder.0.attention"].attention_mask, torch.ones(4, 4).tril().bool())
    assert record["decoder.0.cross_attention"].attention_mask.all()
    for found in record.maps:
        assert found.sums_to_one and (found.probabilities.sum(-1) - 1).abs().max() < 1e-12
    with pytest.raises(KitError, match=r"no attention 'decoder\.7\.attention'"):
        record["decoder.7.attention"]


def test_a_record_does_not_depend_on_what_else_is_in_the_batch(pairs: Inspector) -> None:
    texts = [("1 2 3", "3 2 1"), ("4", "4"), ("5 6 7 8 1 2", "1")]
    together = list(pairs.records(texts))
    for given, record in zip(texts, together, strict=True):
        alone = pairs.record(given)
        assert alone.source == record.source and alone.target == record.target
        for one, other in zip(alone.maps, record.maps, strict=True):
            assert (one.weights - other.weights).abs().max() < 1e-6
            assert torch.equal(one.attention_mask, other.attention_mask)


def test_without_a_target_the_model_writes_one(pairs: Inspector) -> None:
    record = pairs.record("1 2 3")
    assert record.generated and record.target is not None and record.target.tokens[0] == "<start>"
    again = pairs.record(Example("1 2 3", " ".join(record.target.tokens[1:])))
    assert not again.generated
    for one, other in zip(record.maps, again.maps, strict=True):
        assert torch.equal(one.weights, other.weights)


def test_weights_stand_at_query_and_key(text: Inspector) -> None:
    record = text.record("the cat")
    assert record.source is None and record.target is not None
    assert record.target.tokens[:3] == ("<start>", "t", "h")
    recorder = AttentionRecorder()
    text.model(target=TokenBatch.of(torch.tensor([record.target.ids])), observer=recorder)
    found = record["decoder.0.attention"]
    assert torch.equal(found.weights, recorder.by_site["decoder.0.attention"][0])
    # The first token sees only itself: row 0, not column 0.
    assert found.weights[:, 0, 0].eq(1).all() and found.weights[:, 0, 1:].eq(0).all()


def test_encoders_and_prefix_models_read_as_they_were_trained(classes: Inspector, prefixed: Inspector) -> None:
    record = classes.record("[MAX 1 2 ]")
    assert record.target is None and record.source is not None and record.source.next_tokens is None
    assert record.source.tokens == ("<start>", "[MAX", "1", "2", "]", "<end>")
    record = prefixed.record(("1 2", "2 1"))
    assert record.target is not None and record.source is None
    assert record.target.tokens == ("<start>", "1", "2", "<separator>", "2", "1")
    allowed = record["decoder.0.attention"].attention_mask
    assert allowed[:4, :4].all() and not allowed[:4, 4:].any() and not allowed[4, 5]
    written = prefixed.record("1 2")
    assert written.generated and written.target is not None and written.target.tokens[:4] == record.target.tokens[:4]


def test_a_corpus_is_streamed(pairs: Inspector) -> None:
    asked = []

    def endless() -> object:
        for number in count():
            asked.append(number)
            yield f"{number % 5 + 1} 2"

    assert len(list(islice(pairs.records(endless(), batch_size=4), 6))) == 6  # type: ignore[arg-type]
    assert len(asked) == 8


def test_a_text_that_is_too_long_is_refused(pairs: Inspector) -> None:
    with pytest.raises(KitError, match="longer than the 24 tokens"):
        pairs.record("1 " * 40)


def test_parts_without_weights_say_so_and_those_that_are_no_shares_too() -> None:
    record = _looked(build("encoder", {"attention": FourierOptions()}))
    assert record.maps == () and record.unseen.keys() == {"encoder.0.attention", "encoder.1.attention"}
    with pytest.raises(KitError, match=r"encoder\.0\.attention has no weights to show: a Fourier transform"):
        record["encoder.0.attention"]
    found = _looked(build("encoder", {"attention": SigmoidOptions(heads=2)})).maps[0]
    assert not found.sums_to_one and (found.probabilities.sum(-1) - 1).abs().max() < 1e-12


def test_uniform_attention_prefers_nothing_that_may_be_seen() -> None:
    allowed = torch.ones(3, 3).tril().bool()
    found = AttentionMap("decoder.0.attention", "decoder", 0, torch.eye(3)[None], allowed)
    wanted = torch.tensor([[1, 0, 0], [1 / 2, 1 / 2, 0], [1 / 3, 1 / 3, 1 / 3]], dtype=torch.float64)
    assert torch.equal(found.uniform().weights[0], wanted)


def test_the_untrained_twin_is_the_same_every_time_and_moves_no_generator(pairs: Inspector) -> None:
    before = torch.get_rng_state()
    one, same, other = (dict(pairs.untrained_copy(seed).model.named_parameters()) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    name = "encoder.stack.layers.0.attention.output.weight"
    assert torch.equal(one[name], same[name]) and not torch.equal(one[name], other[name])
    assert not torch.equal(one[name], dict(pairs.model.named_parameters())[name])


def test_the_data_of_the_run_can_be_looked_at(pairs: Inspector) -> None:
    found = list(pairs.examples("validation", 4))
    assert len(found) == 4 and all(example.target for example in found)


def _looked(model: object) -> AttentionRecord:
    class Numbers:
        size = 50

        def token(self, number: int) -> str:
            return str(number)

    reader = ExampleReader(Tokenizers.one(Numbers()), "classification", 64)  # type: ignore[arg-type]
    return Inspector(model, reader).run([ExampleIds((6, 7, 8))])[0]  # type: ignore[arg-type]
