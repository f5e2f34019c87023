"""Figures in documents are those of `benchmarks/results`, and are written by a command."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import click
import pytest

from benchmarks import harness
from benchmarks.tables import ROOT, documents, named, rewritten

RESULTS = harness.RESULTS
DOCUMENTS = {
    path: path.read_text("utf-8") for path in documents() if "<!-- end -->" in path.read_text("utf-8")
}
SPEED = {
    "name": "speed",
    "command": "python -m benchmarks speed",
    "date": "2026-11-27",
    "machine": "2 cores",
    "title": "How fast",
    "headers": ["way", "ms", "bytes", "ratio"],
    "rows": [["ours | all", "1.5", "", "2x (1 to 3)"], ["theirs", "3", "", ""]],
}
TABLE = """<!-- benchmark: speed -->

| way | ms | ratio |
| --- | ---: | ---: |
| ours \\| all | 1.5 | 2x (1 to 3) |
| theirs | 3 |  |

How fast. `python -m benchmarks speed`, 2026-11-27, 2 cores.

<!-- end -->
"""


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(harness, "RESULTS", tmp_path)
    (tmp_path / "speed.json").write_text(json.dumps(SPEED), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_the_figures_of_a_document_are_those_of_the_results(path: Path) -> None:
    assert rewritten(DOCUMENTS[path]) == DOCUMENTS[path], "run `python -m benchmarks.tables`"


@pytest.mark.parametrize("name", ["README.md", "docs/performance.md", "docs/performance-groups.md"])
def test_no_figure_of_speed_is_typed_into_a_sentence(name: str) -> None:
    text = re.sub(r"<!-- (benchmark|cell): .*?<!-- end -->", "", (ROOT / name).read_text("utf-8"), flags=re.S)
    sentences = [
        line for line in text.splitlines() if not line.startswith("|")
    ]  # tables have others' figures
    assert [line for line in sentences if re.search(r"\d ?(x|ms|[KMG]B/s)\b", line)] == []


def test_every_result_that_is_kept_is_shown_in_a_document() -> None:
    command = ["git", "ls-files", "*.json"]
    listed = subprocess.run(command, cwd=RESULTS, capture_output=True, text=True, check=True, timeout=60)
    kept = {Path(name).stem for name in listed.stdout.splitlines()}
    assert kept - set().union(*map(named, DOCUMENTS.values())) == set(), "show it, or remove it"


def test_every_result_was_written_by_a_benchmark() -> None:
    for path in RESULTS.glob("*.json"):
        assert json.loads(path.read_text("utf-8")).keys() >= {"versions", "system", "data"}, path.name


def test_a_table_is_written_without_its_empty_columns_and_again_the_same(results: Path) -> None:
    written = rewritten("<!-- benchmark: speed --> what was there <!-- end -->\n")
    assert written == TABLE
    assert rewritten(written) == TABLE


def test_results_with_the_same_columns_make_one_table(results: Path) -> None:
    more = SPEED | {"name": "more", "rows": [["others", "4", "", ""]]}
    (results / "more.json").write_text(json.dumps(more), encoding="utf-8")
    written = rewritten("<!-- benchmark: speed more --><!-- end -->")
    assert written.splitlines()[2:8] == [
        "| way | ms | ratio |",
        "| --- | ---: | ---: |",
        "| ours \\| all | 1.5 | 2x (1 to 3) |",
        "| theirs | 3 |  |",
        "| others | 4 |  |",
        "",
    ]
    assert written.count("How fast.") == 1


def test_a_cell_is_written_into_a_sentence(results: Path) -> None:
    sentence = (
        "It takes <!-- cell: speed; theirs; ms -->{}<!-- end --> ms, "
        "not <!-- cell: speed; ours | all; ms -->{}<!-- end -->."
    )
    assert rewritten(sentence.format("9", "")) == sentence.format("3", "1.5")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("<!-- benchmark: slow --><!-- end -->", "slow.json: run the benchmark that writes it"),
        (
            "<!-- cell: speed; hers; ms --><!-- end -->",
            "speed has no row 'hers' with a column 'ms'; it has 'ours | all', 'theirs', 'way'",
        ),
        ("<!-- cell: speed; theirs; s --><!-- end -->", "no row 'theirs' with a column 's'"),
        ("<!-- cell: speed --><!-- end -->", "<!-- cell: speed --> is not NAME; ROW; COLUMN"),
        ("<!-- cell: speed; theirs; ms -->3", "has no <!-- end -->"),
        ("<!-- benchmark: speed -->", "has no <!-- end -->"),
    ],
)
def test_a_mark_that_names_nothing_is_refused(results: Path, text: str, says: str) -> None:
    with pytest.raises(click.ClickException) as refused:
        rewritten(text)
    assert says in refused.value.message


def test_a_report_is_what_a_document_shows(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    harness.report("mine", "Two\nlines", ["what", "ms"], [["a", "1"]], {"times_s": [0.001]})
    assert json.loads((results / "mine.json").read_text("utf-8"))["data"] == {"times_s": [0.001]}
    lines = rewritten("<!-- benchmark: mine --><!-- end -->").splitlines()
    assert lines[2:5] == ["| what | ms |", "| --- | ---: |", "| a | 1 |"]
    assert lines[6].startswith("Two lines. ")
