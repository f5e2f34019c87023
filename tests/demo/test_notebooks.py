"""The notebooks as they are in git: without outputs, with the cells that the demo looks for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


def cells(role: str) -> list[dict[str, Any]]:
    notebook = json.loads((NOTEBOOKS / f"{role}.ipynb").read_text(encoding="utf-8"))
    return list(notebook["cells"])


@pytest.mark.parametrize("role", ["owner", "scientist"])
def test_no_outputs_and_no_execution_counts(role: str) -> None:
    for cell in cells(role):
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
        assert set(cell["metadata"]) <= {"tags"}


@pytest.mark.parametrize(
    ("role", "tags"), [("owner", ["give-code", "summary"]), ("scientist", ["take-code", "summary"])]
)
def test_the_cells_that_the_demo_looks_for(role: str, tags: list[str]) -> None:
    assert [tag for cell in cells(role) for tag in cell["metadata"].get("tags", [])] == tags


def test_the_scientist_pastes_the_code_in_a_cell_of_its_own() -> None:
    (cell,) = (cell for cell in cells("scientist") if cell["metadata"].get("tags") == ["take-code"])
    assert "".join(cell["source"]) == 'CODE = "paste the code here"'
