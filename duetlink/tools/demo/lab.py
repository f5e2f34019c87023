"""Opens the notebooks of a lesson side by side in JupyterLab, for one person who runs all of them."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from duetlink.errors import MissingLibrary
from duetlink.tools.demo.errors import DemoFailed
from duetlink.tools.demo.lesson import Lesson
from duetlink.tools.demo.play import OUTPUT

WORKSPACE = "duetlink"
_BY_HAND = "by-hand"
_MOST_BESIDE = 3  # notebooks in a row
_LAYOUT = ".jupyterlab"  # directory for JupyterLab's workspace; next to the notebooks, not in the user's home


def open_side_by_side(console: Console, lesson: Lesson, directory: Path) -> int:
    """Copy the notebooks of `lesson`, open them in JupyterLab, and return its exit status when it ends.

    The copies go to `duetlink-demo/NAME/by-hand` in `directory`. Existing copies are not changed.

    Raises:
        MissingLibrary: JupyterLab is not installed.
        DemoFailed: the directory cannot be written to.
    """
    if importlib.util.find_spec("jupyterlab") is None:
        raise MissingLibrary("--open needs jupyterlab: pip install jupyterlab")
    folder = directory / OUTPUT / lesson.name / _BY_HAND
    try:
        names = _copied(lesson, folder)
        lay_out(names, folder / _LAYOUT)
    except OSError as error:
        raise DemoFailed(
            f"{folder}, where the notebooks go, cannot be written to: {error.strerror or error}; run "
            "duetlink demo in a directory of yours"
        ) from None
    console.print(f"JupyterLab opens {' and '.join(names)} in {folder}", soft_wrap=True)
    if lesson.is_alone:
        console.print("Run its cells from the top; it meets no other notebook.")
    else:
        console.print(
            f"Run the cells of {names[0]} first: one of them shows the code that the others join with."
        )
    process = subprocess.Popen(
        command(folder), env={"DUETLINK_AUDIT_PATH": str(folder / "audit.jsonl")} | os.environ
    )
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # JupyterLab handles Ctrl-C: it asks first
    try:
        return process.wait()
    finally:
        signal.signal(signal.SIGINT, before)


def command(folder: Path) -> list[str]:
    """Return the command that runs JupyterLab with this interpreter on the notebooks in `folder`."""
    as_root = ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    return [
        *(sys.executable, "-m", "jupyterlab", *as_root),
        f"--ServerApp.root_dir={folder}",
        f"--LabApp.workspaces_dir={folder / _LAYOUT}",
        f"--LabApp.default_url=/lab/workspaces/{WORKSPACE}",
    ]


def lay_out(names: Sequence[str], directory: Path) -> None:
    """Write the workspace that shows notebooks of these names side by side; four or more in two rows."""
    from jupyterlab_server.workspaces_handler import WorkspacesManager

    directory.mkdir(parents=True, exist_ok=True)
    WorkspacesManager(str(directory)).save(WORKSPACE, json.dumps(workspace(names)))


def workspace(names: Sequence[str]) -> dict[str, Any]:
    """Return a workspace in the format of JupyterLab.

    Source: https://jupyterlab.readthedocs.io/en/stable/user/workspaces.html.
    """
    tabs = [{"type": "tab-area", "currentIndex": 0, "widgets": [f"notebook:{name}"]} for name in names]
    # four columns on one screen are too narrow to read code or panels
    half = (len(tabs) + 1) // 2
    rows = [tabs] if len(tabs) <= _MOST_BESIDE else [tabs[:half], tabs[half:]]
    parts = [_split("horizontal", row) for row in rows]
    dock = parts[0] if len(parts) == 1 else _split("vertical", parts)
    layout = {
        "main": {"dock": dock, "current": f"notebook:{names[0]}"},
        "left": {"collapsed": True, "visible": True, "widgets": []},
        "right": {"collapsed": True, "visible": True, "widgets": []},
        "down": {"size": 0, "widgets": []},
        "relativeSizes": [0, 1, 0],
    }
    opened = {f"notebook:{name}": {"data": {"path": name, "factory": "Notebook"}} for name in names}
    return {"data": {"layout-restorer:data": layout} | opened, "metadata": {"id": WORKSPACE}}


def _split(orientation: str, children: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a split area whose parts have the same size."""
    sizes = [1 / len(children)] * len(children)
    return {"type": "split-area", "orientation": orientation, "sizes": sizes, "children": list(children)}


def _copied(lesson: Lesson, folder: Path) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    for notebook in lesson.notebooks:
        with contextlib.suppress(FileExistsError), (folder / notebook.name).open("xb") as copy:
            copy.write(notebook.read_bytes())
    return [notebook.name for notebook in lesson.notebooks]
