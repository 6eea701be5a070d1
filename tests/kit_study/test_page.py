"""The page stands alone, shows what was found, and lets no text become markup."""

from __future__ import annotations

import json
import re

import torch

from kit_study.charts import charts
from kit_study.docs_section import write_section
from kit_study.drawing import Chart, Line, ticks
from kit_study.page import page, write_page
from kit_study.results import report
from kit_study.runner import run_study


def test_the_page_stands_alone(plan):
    made = plan(claim="<script>alert(1)</script>", measures=["path_length"])
    run_study(made)
    found = report(made)
    text = page(found)
    assert write_page(found).read_text() == text
    assert "<script" not in text and "&lt;script&gt;" in text
    assert not re.search(r"""(src|href)=["']|url\(|@import""", text)
    assert "default-src 'none'" in text and "prefers-color-scheme:dark" in text
    assert text.count("<svg") == text.count("</svg>") == len([chart for chart in charts(found) if chart.svg()]) > 0
    winner = found.outcomes[0].winner
    assert winner is not None and f"{winner} " in text


def test_a_chart_of_a_metric_over_a_condition_of_numbers(plan):
    width = {"path": "model.width", "values": [8, 16]}
    made = plan(axes={"norm": {"path": "model.norm", "values": ["layer", "rms"]}, "width": width}, seeds=1)
    run_study(made)
    first = next(charts(report(made)))
    assert first.x_label == "width" and [line.label for line in first.lines] == ["layer", "rms"]
    assert [point[0] for point in first.lines[0].points] == [8.0, 16.0]


def test_a_chart_can_be_drawn_from_anything():
    odd = [(1.0, 0.0, None), (2.0, float("nan"), None), (3.0, 5.0, 1.0)]
    assert "<svg" in Chart("t", "x", "y", [Line("a & b", odd)], log_y=True).svg()
    assert Chart("t", "x", "y", [Line("a", [])]).svg() == ""
    assert "<svg" in Chart("t", "x", "y", [Line("a", [(1.0, 1.0, None)])], log_x=True).svg()


def test_ticks_are_round():
    assert ticks(0.0, 1.0) == [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]
    assert ticks(-2.3, 3.1, whole=True) == [-2.0, -1.0, 0.0, 1.0, 2.0, 3.0]


def test_a_section_is_written_again_and_what_a_person_wrote_stays(plan, tmp_path):
    made = plan(seeds=1)
    run_study(made)
    path = write_section(report(made), tmp_path / "docs", made.study.path)
    text = path.read_text()
    assert "**Claim.** Nothing in particular." in text and "| layer |" in text.replace("**", "")
    path.write_text(text.replace("(not written yet)", "It means this.") + "\n## Another\n")
    again = write_section(report(made), tmp_path / "docs", made.study.path).read_text()
    assert "It means this." in again and "## Another" in again
    assert again.count("## small") == 1
    assert all((path.parent / name).is_file() for name in re.findall(r"\((studies/\S+\.\w+)\)", again))


def test_a_section_says_what_its_runs_ran_with(plan, tmp_path):
    made = plan(seeds=2)
    run_study(made)
    write_section(report(made), tmp_path / "docs", made.study.path)
    locks = json.loads((tmp_path / "docs" / "studies" / "small.locks.json").read_text())
    assert locks["all"]["torch"] == torch.__version__ and "plugins.attention.sha256" in locks["all"]
    assert len(locks["cells"]) == 4 and {each["seed"] for each in locks["cells"].values()} == {0, 1}
    assert len({each["run"] for each in locks["cells"].values()}) == 4
