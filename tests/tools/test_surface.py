"""`duetlink coverage`: what of the libraries may be used on pointers, and the page that has its output."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from duetlink.errors import SettingError
from duetlink.tools import surface
from duetlink.tools.cli import main

PAGE = Path(__file__).resolve().parents[2] / "docs/coverage.md"
LINE = re.compile(r"^\| ([^|]+) \| (\d+) \| (\d+) \| (\d+) \|$", re.MULTILINE)


def test_the_page_claims_no_more_than_there_is_and_is_not_out_of_date() -> None:
    """Within ten points, so that a few names more in a list do not need a change of the page as well."""
    documented = {title: int(percent) for title, _, _, percent in LINE.findall(PAGE.read_text("utf-8"))}
    assert len(documented) >= 30
    counted = {row.title: row.percent for row in surface.rows(("numpy", "pandas", "polars", "scipy"))}
    assert counted.keys() <= documented.keys()
    for title, percent in counted.items():
        assert documented[title] <= percent, title
        assert percent <= documented[title] + 10, title


def test_a_name_is_counted_once_and_what_is_missing_can_be_read() -> None:
    rows = {row.title: row for row in surface.rows(("pandas",))}
    frame = rows["pandas.DataFrame"]
    assert {"mean", "groupby", "query"} <= frame.listed <= frame.names
    assert not {"to_csv", "to_sql", "plot"} & frame.names
    found = CliRunner().invoke(main, ["coverage", "--missing", "pandas.DataFrame"])
    assert found.exit_code == 0
    assert found.output.split() == sorted(frame.names - frame.listed)
    with pytest.raises(SettingError, match=r"no line 'frames'; there are numpy, functions; numpy.linalg"):
        surface.missing("frames")
