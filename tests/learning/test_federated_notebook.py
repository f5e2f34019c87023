"""The notebook of four owners, one of whom pauses: executed as it is in git, in a kernel of its own."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = pytest.mark.slow

NOTEBOOK = Path(__file__).resolve().parents[2] / "notebooks" / "11-federated" / "four-owners.ipynb"


async def test_four_owners_learn_together_what_none_knows_while_one_pauses() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)
    await NotebookClient(notebook, timeout=110, kernel_name="python3").async_execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    text = "\n".join(output.get("text", "") for output in shown)
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
    assert not [output for output in shown if output.get("name") == "stderr"]
