"""`kit predict`, `kit evaluate` and `kit compare`, as a person meets them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from runs import tiny_runs
from typer.testing import CliRunner

from kit.cli.main import app


@pytest.fixture(scope="module", autouse=True)
def _runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("runs")
    tiny_runs.trained(tiny_runs.PAIRS, folder)
    tiny_runs.trained(tiny_runs.PAIRS, folder, "training.steps=1", "search={use: beam, size: 2}")
    tiny_runs.trained(tiny_runs.TEXTS, folder)
    tiny_runs.trained(tiny_runs.CLASSES, folder)
    with tiny_runs.alone(folder):
        yield


def kit(*arguments: str, given: str | bytes | None = None) -> str:
    result = CliRunner().invoke(app, list(arguments), input=given, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_texts_of_the_command_line_are_answered():
    assert kit("predict", "pairs/1", "1 2", "3") == "1 2\n3\n"
    assert kit("predict", "pairs/1", "1 2", "--search", "greedy", "--search", "length=1") == "1\n"


def test_several_answers_have_the_number_of_their_text_and_a_score():
    lines = kit("predict", "pairs/1", "1 2", "3", "--nbest", "2", "--search", "beam size=3", "--scores").splitlines()
    cells = [line.split("\t") for line in lines]
    assert [cell[0] for cell in cells] == ["1", "1", "2", "2"]
    assert cells[0][2] == "1 2" and float(cells[0][1]) >= float(cells[1][1])
    label, score = kit("predict", "classes", "grass leaf grass", "--scores").strip().split("\t")[::-1]
    assert label == "green" and 0.5 < float(score) <= 1


def test_lines_of_a_file_are_answered_line_by_line():
    Path("lines.txt").write_bytes(b"1 2\r\n\n\xff\n3")
    result = CliRunner().invoke(app, ["predict", "pairs/1", "--file", "lines.txt"], catch_exceptions=False)
    answers = result.stdout.split("\n")
    assert len(answers) == 5 and (answers[0], answers[3]) == ("1 2", "3")
    assert "2: the input is empty" in result.stderr and "3: unknown: '�'" in result.stderr
    assert "no file" not in result.output
    missing = CliRunner().invoke(app, ["predict", "pairs/1", "--file", "none.txt"])
    assert "none.txt cannot be read: No such file" in str(missing.exception)


def test_an_answer_to_a_line_stays_on_its_line():
    search = ["--search", "sample temperature=9.0 length=12"]
    written = kit("predict", "texts", "--json", *search, given="the\n" * 30)
    assert any("\n" in json.loads(line)["outputs"][0]["text"] for line in written.splitlines())
    assert len(kit("predict", "texts", *search, given="the\n" * 30).splitlines()) == 30


def test_json_is_an_object_a_line():
    (line,) = kit("predict", "pairs/1", "1 x", "--json").splitlines()
    found = json.loads(line)
    assert found["input"] == "1 x" and found["problem"] == "unknown: 'x'"
    assert set(found["outputs"][0]) == {"text", "score", "tokens", "finished"}


def test_a_draft_is_a_run():
    arguments = ["predict", "pairs/1", "1 2", "4 4", "--search", "speculative", "--draft", "pairs/2"]
    assert kit(*arguments) == kit("predict", "pairs/1", "1 2", "4 4")


def test_a_line_is_answered_before_the_next_is_typed():
    command = [sys.executable, "-m", "kit", "predict", "pairs/1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        assert process.stdin is not None and process.stdout is not None
        for line in ("1 2\n", "3\n"):
            process.stdin.write(line)
            process.stdin.flush()
            assert process.stdout.readline() == line
        process.stdin.close()
        assert process.stdout.read() == "" and process.wait(30) == 0


def test_evaluate_shows_figures_with_intervals_and_writes_them():
    pytest.importorskip("sacrebleu")
    output = kit("evaluate", "pairs/1", "--metrics", "exact,bleu,chrf")
    assert "pairs/1 on test: 40 examples" in output and "95 % interval" in output
    assert "BLEU: nrefs:1|case:mixed" in output and "chrF: nrefs:1" in output
    written = json.loads(Path("runs/pairs/1/reports/evaluation-test.json").read_text())
    assert written == json.loads(kit("evaluate", "pairs/1", "--metrics", "exact,bleu,chrf", "--json"))
    low, high = written["figures"]["exact"]["interval"]
    assert low <= written["figures"]["exact"]["value"] <= high
    assert "on validation: 20 examples" in kit("evaluate", "pairs/1", "--split", "validation")


def test_compare_says_who_is_better():
    output = kit("compare", "pairs/2", "pairs/1")
    assert "exact: pairs/1 is better" in output and "40 examples that both measured" in output
    assert "exact: not decided between pairs/1 and pairs/1" in kit("compare", "pairs/1", "pairs/1")
    found = json.loads(kit("compare", "pairs/2", "pairs/1", "--json"))
    assert found["figures"]["exact"]["better"] == "pairs/1" and found["figures"]["exact"]["p"] < 0.05


def test_a_recipe_whose_model_writes_nothing_needs_no_search():
    Path("wrong.yaml").write_text(tiny_runs.CLASSES.replace("tokenizer:", "search: beam\ntokenizer:"))
    output = CliRunner().invoke(app, ["check", "wrong.yaml"]).output
    assert "wrong.yaml:" in output and "generates nothing, so there is nothing to search for" in output
    text = tiny_runs.PAIRS.replace("tokenizer:", "search: {use: speculative, draft: pairs}\ntokenizer:")
    Path("draft.yaml").write_text(text)
    assert "--draft RUN" in CliRunner().invoke(app, ["check", "draft.yaml"]).output
