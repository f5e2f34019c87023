"""What of the libraries may be used on pointers, counted, and the page that has the table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.compute.operations import coverage

PAGE = Path(__file__).resolve().parents[3] / "docs/coverage.md"
LINE = re.compile(r"^\| ([^|]+) \| (\d+) \| (\d+) \| (\d+) \|$", re.MULTILINE)


def test_the_page_claims_no_more_than_there_is_and_is_not_out_of_date() -> None:
    """Within ten points, so that a few names more in a list do not need a change of the page as well."""
    documented = {title: int(percent) for title, _, _, percent in LINE.findall(PAGE.read_text("utf-8"))}
    assert len(documented) >= 30
    counted = {row.title: row.percent for row in coverage.rows(("numpy", "pandas", "polars", "scipy"))}
    assert counted.keys() <= documented.keys()
    for title, percent in counted.items():
        assert documented[title] <= percent, title
        assert percent <= documented[title] + 10, title


def test_a_name_is_counted_once_and_what_is_missing_can_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {row.title: row for row in coverage.rows(("pandas",))}
    frame = rows["pandas.DataFrame"]
    assert {"mean", "groupby", "query"} <= frame.listed <= frame.names
    assert not {"to_csv", "to_sql", "plot"} & frame.names
    coverage.main(["--missing", "pandas.DataFrame"])
    assert capsys.readouterr().out.split() == sorted(frame.names - frame.listed)
