"""`duetlink demo --open`: copies of a lesson's notebooks, and a workspace that shows them side by side."""

from __future__ import annotations

import importlib.util
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jupyterlab_server.workspaces_handler import WorkspacesManager
from rich.console import Console

from duetlink.errors import MissingLibrary
from duetlink.tools.demo import lab
from duetlink.tools.demo.errors import DemoFailed
from duetlink.tools.demo.lesson import find


class Ended:
    """A JupyterLab that has ended at once."""

    def __init__(self, ran: list[list[str]], command: list[str]) -> None:
        ran.append(command)

    def wait(self) -> int:
        return 0


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that would have run."""
    commands: list[list[str]] = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, env: Ended(commands, command))
    return commands


def test_all_notebooks_of_a_lesson_are_copied_and_laid_out(tmp_path: Path, ran: list[list[str]]) -> None:
    lesson = find("4-two-owners")
    assert lab.open_side_by_side(Console(quiet=True), lesson, tmp_path) == 0
    place = tmp_path / "duetlink-demo" / "4-two-owners" / "by-hand"
    names = ["owner-north.ipynb", "owner-south.ipynb", "scientist.ipynb"]
    assert sorted(path.name for path in place.glob("*.ipynb")) == names
    ((python, *rest),) = ran
    assert (python, rest[:2]) == (sys.executable, ["-m", "jupyterlab"])
    assert rest[-3:] == [
        f"--ServerApp.root_dir={place}",
        f"--LabApp.workspaces_dir={place / '.jupyterlab'}",
        "--LabApp.default_url=/lab/workspaces/duetlink",
    ]
    saved: Any = WorkspacesManager(str(place / ".jupyterlab")).load("duetlink")
    dock = saved["data"]["layout-restorer:data"]["main"]["dock"]
    assert (dock["orientation"], len(dock["sizes"])) == ("horizontal", 3)
    assert [tab["widgets"] for tab in dock["children"]] == [[f"notebook:{name}"] for name in names]
    assert saved["data"]["notebook:scientist.ipynb"]["data"]["path"] == "scientist.ipynb"


def test_four_notebooks_stand_in_two_rows(tmp_path: Path, ran: list[list[str]]) -> None:
    assert lab.open_side_by_side(Console(quiet=True), find("7-group"), tmp_path) == 0
    place = tmp_path / "duetlink-demo" / "7-group" / "by-hand"
    saved: Any = WorkspacesManager(str(place / ".jupyterlab")).load("duetlink")
    dock = saved["data"]["layout-restorer:data"]["main"]["dock"]
    assert (dock["orientation"], dock["sizes"]) == ("vertical", [0.5, 0.5])
    rows = [[tab["widgets"] for tab in row["children"]] for row in dock["children"]]
    assert rows == [
        [["notebook:member-ann.ipynb"], ["notebook:member-ben.ipynb"]],
        [["notebook:member-cal.ipynb"], ["notebook:member-dee.ipynb"]],
    ]
    assert {row["orientation"] for row in dock["children"]} == {"horizontal"}


def test_a_lesson_of_one_notebook_is_opened_alone(tmp_path: Path, ran: list[list[str]]) -> None:
    said = io.StringIO()
    assert lab.open_side_by_side(Console(file=said, width=200), find("10"), tmp_path) == 0
    assert said.getvalue().splitlines()[-1] == "Run its cells from the top; it meets no other notebook."
    place = tmp_path / "duetlink-demo" / "10-gossip" / "by-hand"
    assert [path.name for path in place.glob("*.ipynb")] == ["gossip.ipynb"]
    assert len(ran) == 1


def test_what_a_person_has_made_of_a_copy_stays(tmp_path: Path, ran: list[list[str]]) -> None:
    place = tmp_path / "duetlink-demo" / "1-basics" / "by-hand"
    place.mkdir(parents=True)
    (place / "owner.ipynb").write_text("mine")
    lab.open_side_by_side(Console(quiet=True), find("1-basics"), tmp_path)
    assert (place / "owner.ipynb").read_text() == "mine"
    assert (place / "scientist.ipynb").read_bytes() == find("1-basics").notebooks[1].read_bytes()
    assert len(ran) == 1


def test_without_jupyterlab_and_without_a_place_it_says_what_to_do(
    tmp_path: Path, ran: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "duetlink-demo").write_text("a file")
    with pytest.raises(DemoFailed, match="cannot be written to: Not a directory; run duetlink demo in"):
        lab.open_side_by_side(Console(quiet=True), find("1-basics"), tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingLibrary, match="pip install jupyterlab"):
        lab.open_side_by_side(Console(quiet=True), find("1-basics"), tmp_path)
    assert ran == []
