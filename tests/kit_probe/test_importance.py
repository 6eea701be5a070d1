"""What the loss hangs on: slopes against small steps, ablation against taking heads away, hiding against hiding."""

from __future__ import annotations

import pytest
import torch
from models.synthetic_attention import everything, own

from kit import (
    ExampleIds,
    HeadMask,
    Inspector,
    TokenBatch,
    head_gradients,
    mean_head_outputs,
    sequence_losses,
)
from kit_probe.ablation import AblationOptions, AblationProbe
from kit_probe.importance import ImportanceOptions, ImportanceProbe
from kit_probe.input_saliency import saliency
from kit_probe.saliency import SaliencyOptions, SaliencyProbe, rank_correlation, ranks

PROBE = ImportanceProbe(ImportanceOptions())


def rows(inspector: Inspector, count: int = 5) -> list[ExampleIds]:
    return [inspector.reader.encode(example) for example in inspector.examples("validation", count)]


@pytest.fixture
def exact(pairs: Inspector) -> Inspector:
    """In float64, so that small steps tell slopes."""
    pairs.model.double()
    return pairs


def test_slopes_are_what_small_steps_say_for_each_text(exact: Inspector) -> None:
    given = rows(exact)
    found = head_gradients(exact, given)
    step = 1e-5
    for site, head in (("encoder.0.attention", 1), ("decoder.1.attention", 3), ("decoder.0.cross_attention", 0)):
        gates = [torch.ones(1, found[site].shape[1], dtype=torch.float64) for _ in range(2)]
        gates[0][0, head] += step
        gates[1][0, head] -= step
        up, down = (sequence_losses(exact, given, HeadMask({site: gate})) for gate in gates)
        assert ((up - down) / (2 * step) - found[site][:, head]).abs().max() < 1e-7


def test_sizes_are_taken_text_by_text_not_batch_by_batch(exact: Inspector) -> None:
    given = rows(exact, 8)
    together = [each["decoder.0.cross_attention"] for each in PROBE.gather(exact, given)]
    alone = [next(PROBE.gather(exact, [row]))["decoder.0.cross_attention"] for row in given]
    for one, other in zip(together, alone, strict=True):
        assert (one - other).abs().max() < 1e-9
    signed = head_gradients(exact, given)["decoder.0.cross_attention"]
    assert (signed.mean(0).abs() < torch.stack(together).mean(0)).any()  # batch by batch some would cancel out


def test_importance_has_length_one_in_each_layer_and_does_not_see_scale(exact: Inspector) -> None:
    given = rows(exact)

    def found() -> torch.Tensor:
        kept = [each["encoder.0.attention"] for each in PROBE.gather(exact, given)]
        return PROBE.aggregate(PROBE.align(kept))

    before = found()
    assert float(before[:, 1].norm()) == pytest.approx(1.0)
    attention = exact.model.get_submodule("encoder.stack.layers.0.attention")
    with torch.no_grad():  # values twice as large, the output half as much of them
        attention.query_key_value.weight[-attention.v_size :] *= 2
        attention.query_key_value.bias[-attention.v_size :] *= 2
        attention.output.weight /= 2
    assert (found() - before).abs().max() < 1e-9


def test_ablation_is_what_the_model_loses(exact: Inspector) -> None:
    given = rows(exact)
    kept = list(AblationProbe(AblationOptions()).gather(exact, given))
    assert len(kept) == len(given)
    attention = exact.model.get_submodule("encoder.stack.layers.1.attention")
    whole = sequence_losses(exact, given)
    with torch.no_grad():
        attention.output.weight[:, 8:] = 0  # the second of two heads
    wanted = sequence_losses(exact, given) - whole
    found = torch.stack([each["encoder.1.attention"][1, 0] for each in kept])
    assert (found - wanted).abs().max() < 1e-9


def test_a_head_that_always_gives_the_same_loses_nothing_by_its_mean(exact: Inspector) -> None:
    attention = exact.model.get_submodule("encoder.stack.layers.1.attention")
    with torch.no_grad():
        attention.query_key_value.weight[-16:-8] = 0  # the first head's values are its bias, whatever the text
        attention.query_key_value.bias[-16:-8] = 0.5
    given = rows(exact)
    kept = list(AblationProbe(AblationOptions()).gather(exact, given))
    assert torch.stack([each["encoder.1.attention"][0, 1] for each in kept]).abs().max() < 1e-9
    assert torch.stack([each["encoder.1.attention"][0, 0] for each in kept]).abs().max() > 1e-4
    assert mean_head_outputs(exact, given)["encoder.1.attention", 0].tolist() == pytest.approx([0.5] * 8)


def test_classes_need_their_labels(classes: Inspector) -> None:
    assert list(PROBE.gather(classes, [classes.reader.encode("[MAX 1 2 ]")])) == []
    assert len(list(PROBE.gather(classes, rows(classes)))) == 5


def test_saliency_is_what_slopes_and_hiding_say(exact: Inspector) -> None:
    (row,) = rows(exact, 1)
    found = saliency(exact, row)
    assert found is not None
    length = len(row.source) + 1
    assert found.by_gradient["source"].shape == (len(found.predictions), length)
    assert found.predictions[-1] == "<end>"
    # A target token is read after what comes before it was written.
    assert (
        found.by_gradient["target"].triu(1).abs().max() == 0 and found.by_occlusion["target"].triu(1).abs().max() < 1e-5
    )
    batch = exact.reader.batch([row])
    source, target = exact.reader.model_inputs(batch)
    assert source is not None and target is not None and batch.target is not None
    embedding = exact.model.get_submodule("encoder.embedding")
    vectors = embedding(source.ids)
    changed = vectors.clone()
    changed[0, 1] = vectors[0].mean(0)
    handle = embedding.register_forward_hook(lambda *_: changed)
    hidden = exact.model(source, target).log_softmax(-1)
    handle.remove()
    whole = exact.model(TokenBatch.of(source.ids), target).log_softmax(-1)
    gold = batch.target.ids[0, 1:]
    places = torch.arange(len(gold))
    fall = (whole - hidden)[0, places, gold]
    assert (found.by_occlusion["source"][:, 1] - fall).abs().max() < 1e-5


def test_agreement_with_saliency(pairs: Inspector, text: Inspector, classes: Inspector) -> None:
    probe = SaliencyProbe(SaliencyOptions(sequences=2))
    for inspector, kinds in ((pairs, {"decoder", "cross"}), (text, {"decoder"}), (classes, {"encoder"})):
        kept = list(probe.gather(inspector, rows(inspector, 2)))
        record = inspector.run(rows(inspector, 1))[0]
        assert {record[site].kind for site in kept[0]} == kinds
        assert all((found.abs() <= 1).all() for each in kept for found in each.values())
    even = list(probe.gather(pairs.uniform_attention(), rows(pairs, 2)))
    assert all(found.abs().max() == 0 for found in even[0].values())  # an even head has no order
    drawings = probe.draw(pairs.record(("1 2 3", "3 2 1")), pairs)
    assert [it.name for it in drawings] == [
        "gradient, source",
        "occlusion, source",
        "gradient, target",
        "occlusion, target",
    ]
    assert drawings[0].values.shape == (4, 4) and drawings[0].rows == ("3", "2", "1", "<end>")


def test_rank_correlation() -> None:
    assert ranks(torch.tensor([[3.0, 1.0, 1.0, 7.0]])).tolist() == [[2.0, 0.5, 0.5, 3.0]]
    one = torch.tensor([[1.0, 2.0, 30.0], [3.0, 2.0, 1.0], [1.0, 1.0, 1.0]])
    assert rank_correlation(one, torch.tensor([0.1, 0.2, 0.3])).tolist() == pytest.approx([1.0, -1.0, 0.0])
    assert own([torch.eye(2)[None]], everything(2)).maps[0].heads == 1
