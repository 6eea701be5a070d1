"""Many requests share a batch, nobody gets another's answer, and nobody waits for ever."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future

import pytest
from processes.servers import PATIENCE, Echo

from kit.errors import KitError
from kit.prediction.predictor import Prediction
from kit_serve.batching import Batcher, ModelFailed
from kit_serve.request import Limits, Refusal


def texts_of(future: Future[list[Prediction]]) -> list[str]:
    return [prediction.text for prediction in future.result(PATIENCE)]


def held(echo: Echo, batcher: Batcher) -> Future[list[Prediction]]:
    """Keep the model busy, so that what is submitted next has to wait."""
    echo.go.clear()
    first = batcher.submit(["first"], 1)
    deadline = time.monotonic() + PATIENCE
    while not echo.batches:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    return first


def test_what_waits_is_answered_together_and_each_gets_its_own():
    echo = Echo()
    batcher = Batcher(echo, Limits(batch=8))
    held(echo, batcher)
    futures = [batcher.submit([f"{number}a", f"{number}b"], 1) for number in range(4)]
    assert batcher.waiting == 8 and batcher.working == 1
    echo.go.set()
    assert [texts_of(future) for future in futures] == [[f"a{number}", f"b{number}"] for number in range(4)]
    batcher.close()
    assert [len(batch) for batch in echo.batches] == [1, 8]
    assert batcher.answered == 9 and batcher.batches == 2 and batcher.waiting == 0


def test_a_batch_is_never_larger_than_allowed():
    echo = Echo()
    batcher = Batcher(echo, Limits(batch=5))
    held(echo, batcher)
    texts = [str(number) for number in range(23)]
    future = batcher.submit(texts, 1)
    echo.go.set()
    assert texts_of(future) == [text[::-1] for text in texts]
    batcher.close()
    assert max(map(len, echo.batches)) == 5


def test_a_long_list_does_not_hold_up_a_single_text():
    echo = Echo()
    batcher = Batcher(echo, Limits(batch=4))
    held(echo, batcher)
    batcher.submit([f"long{number}" for number in range(60)], 1)
    batcher.submit(["short"], 1)
    echo.go.set()
    batcher.close()
    assert "short" in echo.batches[1]


def test_nobody_is_overtaken_for_ever_by_those_who_want_something_else():
    echo = Echo()
    batcher = Batcher(echo, Limits(batch=2))
    held(echo, batcher)
    for number in range(20):
        batcher.submit([f"one{number}"], 1)
        batcher.submit([f"two{number}"], 2)
    echo.go.set()
    batcher.close()
    orders = [text for batch in echo.batches[1:] for text in batch if text.startswith("two")]
    assert orders == [f"two{number}" for number in range(20)]
    assert all(len({text[:3] for text in batch}) == 1 for batch in echo.batches), "another number of answers"
    assert set(echo.nbest[1:5]) == {1, 2}, "both kinds take turns"


def test_a_text_that_fails_fails_alone():
    echo = Echo()
    batcher = Batcher(echo, Limits(batch=8))
    held(echo, batcher)
    good, wrong, crash, leave = (batcher.submit(texts, 1) for texts in (["ab"], ["wrong"], ["cd", "crash"], ["exit"]))
    echo.go.set()
    assert texts_of(good) == ["ba"]
    with pytest.raises(KitError, match="this text is wrong"):
        wrong.result(PATIENCE)
    with pytest.raises(ModelFailed) as told:
        crash.result(PATIENCE)
    assert "secret" not in str(told.value)
    with pytest.raises(ModelFailed):  # not SystemExit, which would end the server
        leave.result(PATIENCE)
    assert texts_of(batcher.submit(["ef"], 1)) == ["fe"], "the thread goes on"
    batcher.close()


def test_a_predictor_that_loses_answers_is_found_out():
    batcher = Batcher(Echo(), Limits())
    with pytest.raises(ModelFailed):
        batcher.submit(["fewer"], 1).result(PATIENCE)
    batcher.close()


def test_what_nobody_waits_for_is_not_computed():
    echo = Echo()
    batcher = Batcher(echo, Limits())
    held(echo, batcher)
    gone = batcher.submit(["gone"], 1)
    stays = batcher.submit(["stays"], 1)
    assert gone.cancel() and batcher.waiting == 1
    echo.go.set()
    assert texts_of(stays) == ["syats"]
    batcher.close()
    assert ["gone"] not in echo.batches and all("gone" not in batch for batch in echo.batches)


def test_everybody_leaving_does_not_end_the_thread():
    echo = Echo()
    batcher = Batcher(echo, Limits(wait=0.2))
    batcher.submit(["gone"], 1).cancel()
    time.sleep(0.3)
    assert texts_of(batcher.submit(["ab"], 1)) == ["ba"]
    batcher.close()


def test_too_much_is_refused_and_room_comes_back():
    echo = Echo()
    batcher = Batcher(echo, Limits(queue=3))
    first = held(echo, batcher)
    waiting = batcher.submit(["a", "b"], 1)
    with pytest.raises(Refusal, match=r"2 texts wait, and at most 3 may") as refused:
        batcher.submit(["c", "d"], 1)
    assert refused.value.status == 503 and refused.value.headers["Retry-After"] == "1"
    echo.go.set()
    assert texts_of(first) == ["tsrif"] and texts_of(waiting) == ["a", "b"]
    assert texts_of(batcher.submit(["c", "d"], 1)) == ["c", "d"]
    batcher.close()


def test_closing_answers_what_is_queued_and_takes_no_more():
    echo = Echo()
    batcher = Batcher(echo, Limits(batch=2))
    held(echo, batcher)
    futures = [batcher.submit([f"{number}"], 1) for number in range(9)]
    closing = threading.Thread(target=batcher.close)
    closing.start()
    while not batcher.closed:
        time.sleep(0.001)
    with pytest.raises(Refusal, match="stopping") as refused:
        batcher.submit(["late"], 1)
    assert refused.value.status == 503
    echo.go.set()
    closing.join(PATIENCE)
    assert all(future.done() and not future.exception() for future in futures)


def test_no_texts_have_no_answers():
    batcher = Batcher(Echo(), Limits())
    assert batcher.submit([], 1).result(PATIENCE) == []
    batcher.close()
