"""The notebook of four owners, one of whom pauses: as `duetlink demo 11` plays it, alone."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.tools.demo.played import NOTEBOOKS, play

pytestmark = pytest.mark.slow


def test_four_owners_learn_together_what_none_knows_while_one_pauses(tmp_path: Path) -> None:
    lesson = tmp_path / "11-federated"
    shutil.copytree(NOTEBOOKS / "11-federated", lesson, ignore=shutil.ignore_patterns(".*"))
    played = play(lesson)
    text, shown = played.text("four-owners"), played.outputs("four-owners")
    assert "the same model at all four, to the bit: True" in text
    found = re.search(r"accuracy: (0\.\d\d); by itself at best (0\.\d\d)", text)
    assert found is not None
    together, alone = map(float, found.groups())
    assert alone < 0.6 < 0.8 < together
    missed = re.search(r"(\d+) rounds, of which South missed (\d+)", text)
    assert missed is not None
    assert 8 <= int(missed[2]) <= 30
    assert 40 <= int(missed[1]) <= 44
    pictures = [output for output in shown if "image/png" in output.get("data", {})]
    assert len(pictures) == 1  # updated in place
