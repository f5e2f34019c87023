"""That the harness holds: two people's notebooks in one JupyterLab, and in Notebook 7, link and exchange."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.cell import CellFailed
from tests.browser.conftest import OpenNotebook
from tests.browser.notebook_page import THEMES, Frontend, NotebookPage

pytestmark = pytest.mark.slow

# Without the last line the first click would wait for the cell: ipykernel 7.4 takes a comm's message to the
# shell that last wrote to it, and the main one opened it.
BUTTON = """
import threading
import time

import ipywidgets

threads = []

def press(_):
    threads.append(threading.current_thread())
    button.description = "pressed"

button = ipywidgets.Button(description="press")
button.on_click(press)
display(button)
if hasattr(button.comm, "_reply_subshell_for"):
    button.comm._reply_subshell_for = None
"""
BUSY = """
print("busy", flush=True)
main, end = threading.main_thread(), time.monotonic() + 60
while not threads and time.monotonic() < end:
    time.sleep(0.05)
print("pressed" if threads else "not pressed", "on the main thread" if main in threads else "beside it")
"""


def link(open_notebook: OpenNotebook, frontend: Frontend) -> tuple[NotebookPage, NotebookPage]:
    """An owner's and a scientist's notebook, connected."""
    owner = open_notebook("owner", frontend)
    scientist = open_notebook("scientist", frontend)
    code = owner.run("import duetlink\nduet = duetlink.launch()\nprint(duet.code)").text().splitlines()[-1]
    scientist.run(f"import duetlink\nduet = duetlink.join({code!r})")
    owner.run("duet.wait_connected(60)")
    for page in (owner, scientist):
        assert page.run("print(duet.state)").text() == "connected"
    return owner, scientist


def ask_and_approve(owner: NotebookPage, scientist: NotebookPage) -> None:
    """A value that the owner shares reaches the scientist, by a request that waits in the background."""
    owner.run("import numpy as np\nduet.share(np.arange(1000.0), 'x')")
    scientist.run("duet.wait_object('x', 60)\npending = duet.store['x'].request(reason='its sum')")
    asked = owner.run("request = duet.wait_request(60)\nprint(request.reason)\nrequest.approve()")
    assert "its sum" in asked.text()
    assert scientist.run("print(pending.result(60).sum())").text() == "499500.0"


def test_two_notebooks_in_one_lab_link_and_a_value_crosses(open_notebook: OpenNotebook) -> None:
    owner, scientist = link(open_notebook, "lab")
    assert owner.run("print(duet.verifier)").text() == scientist.run("print(duet.verifier)").text()
    ask_and_approve(owner, scientist)


def test_two_notebooks_in_notebook_7_link_and_a_value_crosses(open_notebook: OpenNotebook) -> None:
    ask_and_approve(*link(open_notebook, "notebook"))


@pytest.mark.parametrize("frontend", ["lab", "notebook"])
def test_a_click_reaches_python_while_a_cell_runs(open_notebook: OpenNotebook, frontend: Frontend) -> None:
    notebook = open_notebook("button", frontend, [BUTTON])
    shown = notebook.run_cell(0)
    busy = notebook.begin(BUSY)
    expect(busy.output).to_contain_text("busy")
    assert busy.is_running()
    shown.output.get_by_role("button", name="press").click()
    expect(shown.output.get_by_role("button", name="pressed")).to_be_visible()
    assert busy.wait().text() == "busy\npressed beside it"


def test_cells_themes_and_pictures(open_notebook: OpenNotebook, tmp_path: Path) -> None:
    notebook = open_notebook("cells", cells=["x = 6\nprint('six')\nx", "1 / 0"])
    assert notebook.count_cells() == 2
    first = notebook.run_cell(0)
    assert first.text() == "six\n6"
    expect(first.output).to_contain_text("six")
    with pytest.raises(CellFailed, match="ZeroDivisionError: division by zero"):
        notebook.run_cell(1)
    assert notebook.run("x * 7").text() == "42"
    assert notebook.count_cells() == 3
    pictures = set()
    for theme in THEMES:
        notebook.set_theme(theme)
        pictures.add(notebook.screenshot(tmp_path / "page.png").read_bytes())
    assert len(pictures) == 3
    assert notebook.screenshot(tmp_path / "output.png", first).stat().st_size < len(min(pictures, key=len))
    notebook.reload()
    assert notebook.count_cells() == 3
    assert notebook.run("x").text() == "6"
