"""A lesson that was played: what its notebooks show, and what the audit log says has left."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console

from duetlink.base.audit.verify import verify
from duetlink.tools.demo import play as demo
from duetlink.tools.demo.errors import DemoFailed
from duetlink.tools.demo.lesson import choose

NOTEBOOKS = Path(__file__).resolve().parents[3] / "notebooks"


def _lessons(*patterns: str) -> list[str]:
    found = {path.parent.name for pattern in patterns for path in NOTEBOOKS.glob(pattern)}
    return sorted(found, key=lambda name: int(name.partition("-")[0]))


DUETS = _lessons("*/scientist.ipynb")
LESSONS = _lessons("*/scientist.ipynb", "*/member-*.ipynb")
ALONE = [name for name in _lessons("*/*.ipynb") if name not in LESSONS]  # one notebook each


def roles(lesson: str) -> list[str]:
    return sorted(path.stem for path in (NOTEBOOKS / lesson).glob("*.ipynb"))


@dataclass(frozen=True)
class Played:
    directory: Path  # of the executed notebooks
    told: str  # what `duetlink demo` printed
    audit: list[dict[str, Any]]

    def cells(self, role: str) -> list[dict[str, Any]]:
        """The code cells, executed."""
        path = self.directory / f"{role}.ipynb"
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        return [cell for cell in cells if cell["cell_type"] == "code"]

    def outputs(self, role: str) -> list[dict[str, Any]]:
        return [output for cell in self.cells(role) for output in cell["outputs"]]

    def text(self, role: str) -> str:
        """All that its cells show as text."""
        shown = [
            output.get("text") or output.get("data", {}).get("text/plain", "")
            for output in self.outputs(role)
        ]
        return "\n".join("".join(part) for part in shown)

    def left(self, owner: str = "") -> list[tuple[str, int]]:
        """What has left the owner of that name, or the only one: the scientist's reasons, and bytes."""
        session = self._owner_session(owner)
        mine = [entry for entry in self.audit if entry["session"] == session]
        assert not [entry for entry in mine if entry["kind"] == "gift"]
        reasons = {entry["request"]: entry["reason"] for entry in mine if entry["kind"] == "request"}
        approved = {
            entry["request"] for entry in mine if entry["kind"] == "answer" and entry["state"] == "approved"
        }
        found = []
        for entry in mine:
            if entry["kind"] == "release" and entry["state"] != "begun":
                assert entry["request"] in approved
                assert (entry["state"], entry["left_bytes"]) == ("complete", entry["size_bytes"])
                found.append((entry.get("reason") or reasons[entry["request"]], entry["left_bytes"]))
        return found

    def _owner_session(self, owner: str) -> str:
        """Both sides write to one log: the owner's session is the one that sees the same verifier."""
        connected = [entry for entry in self.audit if entry["kind"] == "connected"]
        theirs = {entry["session"] for entry in self.audit if entry.get("reason") == "as scientist"}
        verifiers = {
            entry["verifier"]
            for entry in connected
            if entry["session"] in theirs and owner in ("", entry["peer"])
        }
        (session,) = (
            entry["session"]
            for entry in connected
            if entry["session"] not in theirs and entry["verifier"] in verifiers
        )
        return str(session)


def play(directory: Path) -> Played:
    """Play the notebooks in `directory`, in real kernels, and check what is true of every lesson."""
    out, here = io.StringIO(), elsewhere(directory)
    try:
        console = Console(file=out, width=110)
        code = demo.play(console, choose("", directory), timeout_s=280, directory=here)
    except DemoFailed as failed:
        raise AssertionError(f"{out.getvalue()}\n{failed}") from failed
    assert code == 0
    return checked(directory, here, out.getvalue(), Path(os.environ["DUETLINK_AUDIT_PATH"]))


def play_by_command(directory: Path) -> Played:
    """The same by `duetlink demo`, by somebody who has not said where their audit log is."""
    command = [sys.executable, "-m", "duetlink", "demo", "--notebooks", str(directory)]
    environment = os.environ | {"COLUMNS": "110", "TERM": "dumb"}
    del environment["DUETLINK_AUDIT_PATH"]
    here = elsewhere(directory)
    done = subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    return checked(directory, here, done.stdout, here / "duetlink-demo" / directory.name / "audit.jsonl")


def elsewhere(directory: Path) -> Path:
    """A directory that is not the one of the notebooks, to play them from."""
    here = directory.parent / "here"
    here.mkdir()
    return here


def checked(directory: Path, here: Path, told: str, audit: Path) -> Played:
    notebooks = sorted(path.name for path in directory.iterdir())
    met = "✓ the same on both sides" in told or "✓ the same at all who are there" in told
    assert met == (len(notebooks) > 1)
    assert verify(audit).intact
    entries = [json.loads(line) for line in audit.read_text(encoding="utf-8").splitlines()]
    written = here / "duetlink-demo" / directory.name
    played = Played(written, told, entries)
    assert all(name.endswith(".ipynb") for name in notebooks)  # nothing was written beside them
    assert {path.name for path in written.glob("*.ipynb")} == set(notebooks)
    said = told.partition("What was written:\n")[2].partition("To play")[0].split()
    assert sorted(said) == sorted(map(str, (*(written / name for name in notebooks), audit)))
    for path in directory.glob("*.ipynb"):
        assert all(cell["execution_count"] for cell in played.cells(path.stem))
        failed = [output for output in played.outputs(path.stem) if output["output_type"] == "error"]
        warned = [output["text"] for output in played.outputs(path.stem) if output.get("name") == "stderr"]
        assert (failed, warned) == ([], [])
    assert left_behind(os.environ) == []
    return played


def left_behind(environment: Mapping[str, str]) -> list[psutil.Process]:
    """Kernels and servers are known by this directory, wherever they end up in the process tree."""
    mark = environment["JUPYTER_RUNTIME_DIR"]
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get("JUPYTER_RUNTIME_DIR") == mark:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found
