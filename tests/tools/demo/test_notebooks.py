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
from tests.tools.demo.played import DUETS, LESSONS, NOTEBOOKS, roles

ALL = [(lesson, role) for lesson in LESSONS for role in roles(lesson)]


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


@pytest.mark.parametrize(("lesson", "role"), ALL)
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


@pytest.mark.parametrize("lesson", LESSONS)
def test_all_that_they_import_comes_with_the_demo(lesson: str) -> None:
    assert find(lesson).missing == []


def test_every_notebook_is_in_the_wheel() -> None:
    project = tomllib.loads((NOTEBOOKS.parent / "pyproject.toml").read_text(encoding="utf-8"))
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    expected = [f"{lesson}/{role}.ipynb" for lesson, role in ALL]
    assert included == {f"notebooks/{path}": f"duetlink/tools/demo/notebooks/{path}" for path in expected}


def test_a_lesson_is_found_by_its_number_and_by_its_name() -> None:
    assert [lesson.name for lesson in lessons()] == LESSONS
    assert [find(name).name for name in ("2", "statistics", "2-statistics")] == ["2-statistics"] * 3
    assert find("4").title == "Two owners, one model"
    assert [path.stem for path in find("4").notebooks] == ["owner-north", "owner-south", "scientist"]


def test_the_command_lists_them_and_knows_no_others() -> None:
    listed = CliRunner().invoke(main, ["demo", "--list"])
    assert listed.exit_code == 0
    lines = listed.stdout.splitlines()
    assert lines[1] == "2-statistics        Frames and statistics"
    assert lines[8] == "9-private-training  A private training"
    alone = NOTEBOOKS / "10-gossip" / "gossip.ipynb"
    title = "Gossip: learning where nobody is in the middle"
    assert lines[9] == f"10-gossip           {title} (one notebook: {alone})"
    wrong = CliRunner().invoke(main, ["demo", "3-dogs"])
    assert wrong.exit_code == 1
    single = CliRunner().invoke(main, ["demo", "10"])
    assert single.exit_code == 1
    words = f"10-gossip is one notebook, played alone: open {alone} in JupyterLab"
    assert single.stderr == f"error: {words}\n"
    assert wrong.stderr.startswith(
        "error: there is no '3-dogs'; there are 1-basics, 2-statistics, 3-images, "
    )
