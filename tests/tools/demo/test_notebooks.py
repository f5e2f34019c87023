"""The notebooks as they are in git: without outputs, with the cells that the demo looks for, in the wheel."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

import pytest
from click.testing import CliRunner

from duetlink.tools.cli import main
from duetlink.tools.demo.lesson import find, lessons
from tests.tools.demo.played import ALONE, DUETS, LESSONS, NOTEBOOKS, roles

PLAYED = [(lesson, role) for lesson in LESSONS for role in roles(lesson)]
ALL = PLAYED + [(lesson, role) for lesson in ALONE for role in roles(lesson)]


def cells(lesson: str, role: str) -> list[dict[str, Any]]:
    notebook = json.loads((NOTEBOOKS / lesson / f"{role}.ipynb").read_text(encoding="utf-8"))
    return list(notebook["cells"])


@pytest.mark.parametrize(("lesson", "role"), ALL)
def test_no_outputs_and_no_execution_counts(lesson: str, role: str) -> None:
    for number, cell in enumerate(cells(lesson, role)):
        assert cell["id"] == f"{role}-{number:02}"
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
        assert set(cell["metadata"]) <= {"tags"}


@pytest.mark.parametrize(("lesson", "role"), PLAYED)
def test_the_cells_that_the_demo_looks_for(lesson: str, role: str) -> None:
    found = [tag for cell in cells(lesson, role) for tag in cell["metadata"].get("tags", [])]
    if role.startswith("member") and role != roles(lesson)[0]:
        assert found in (["take-code"], ["take-code", "give-code"])
    else:
        assert found == ["take-code" if role == "scientist" else "give-code"]


@pytest.mark.parametrize("lesson", DUETS)
def test_the_scientist_pastes_the_codes_in_a_cell_of_their_own(lesson: str) -> None:
    (cell,) = (cell for cell in cells(lesson, "scientist") if cell["metadata"].get("tags") == ["take-code"])
    names = [role.partition("-")[2] for role in roles(lesson) if role.startswith("owner")]
    for line, name in zip("".join(cell["source"]).splitlines(), names, strict=True):
        assert re.fullmatch(rf'CODE{f"_{name.upper()}" if name else ""} = "paste the code .*here"', line)


@pytest.mark.parametrize("lesson", DUETS)
def test_each_ends_with_what_left(lesson: str) -> None:
    for role in roles(lesson):
        if role.startswith("owner"):
            headings = [
                line
                for cell in cells(lesson, role)
                if cell["cell_type"] == "markdown"
                for line in "".join(cell["source"]).splitlines()
                if line.startswith("## ")
            ]
            assert headings[-1].partition(". ")[2].startswith("What left")


@pytest.mark.parametrize("member", [each for each in PLAYED if each[1].startswith("member")])
def test_a_member_pastes_the_code_in_a_cell_of_its_own(member: tuple[str, str]) -> None:
    taken = [cell for cell in cells(*member) if "take-code" in cell["metadata"].get("tags", [])]
    for cell in taken:
        assert re.fullmatch(r'CODE_[A-Z]+ = "paste the code here"', "".join(cell["source"]))


@pytest.mark.parametrize("lesson", LESSONS + ALONE)
def test_all_that_they_import_comes_with_the_demo(lesson: str) -> None:
    assert find(lesson).missing == []


def test_also_what_duetlink_imports_for_a_lesson_is_missed_before_it_is_played(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "opendp" in find("6").missing
    assert {"narwhals", "polars", "duckdb", "opendp", "dp-accounting"} <= set(find("12").missing)
    assert {"torch", "scikit-learn", "dp-accounting"} <= set(find("9").missing)
    assert "opendp" not in find("9").missing


def test_every_notebook_is_in_the_wheel() -> None:
    project = tomllib.loads((NOTEBOOKS.parent / "pyproject.toml").read_text(encoding="utf-8"))
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    expected = [f"{lesson}/{role}.ipynb" for lesson, role in ALL]
    assert included == {f"notebooks/{path}": f"duetlink/tools/demo/notebooks/{path}" for path in expected}


def test_a_lesson_is_found_by_its_number_and_by_its_name() -> None:
    assert [lesson.name for lesson in lessons() if not lesson.is_alone] == LESSONS
    assert [lesson.name for lesson in lessons() if lesson.is_alone] == ALONE == ["10-gossip", "11-federated"]
    assert [find(name).name for name in ("2", "statistics", "2-statistics")] == ["2-statistics"] * 3
    assert find("4").title == "Two owners, one model"
    assert [path.stem for path in find("4").notebooks] == ["owner-north", "owner-south", "scientist"]


def test_the_command_lists_them_and_knows_no_others() -> None:
    listed = CliRunner().invoke(main, ["demo", "--list"])
    assert listed.exit_code == 0
    lines = listed.stdout.splitlines()
    assert lines[1] == "2-statistics        Frames and statistics"
    assert lines[8] == "9-private-training  A private training"
    assert lines[9] == "10-gossip           Gossip: learning where nobody is in the middle (one notebook)"
    wrong = CliRunner().invoke(main, ["demo", "3-dogs"])
    assert wrong.exit_code == 1
    assert wrong.stderr.startswith(
        "error: there is no '3-dogs'; there are 1-basics, 2-statistics, 3-images, "
    )
