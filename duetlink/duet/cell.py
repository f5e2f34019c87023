"""Identifies the run of a notebook cell that calls, so that `launch` notices when the cell that made a duet
is run again.

A front end such as JupyterLab gives every cell an id and sends it with each request to run the cell, in the
message's metadata. Without an id (a console, nbclient) only the source is known: there, two cells with the
same text count as one. IPython in a terminal has no messages; its text in `In[...]` is used.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one cell. Runs of the same cell have the same `cell` and different numbers."""

    cell: str
    number: str

    def repeats(self, other: Run) -> bool:
        """Return True if both are runs of the same cell, but not the same run."""
        return self.cell == other.cell and self.number != other.number


def current_run() -> Run | None:
    """Return the run that calls. None outside IPython, and if no cell calls, for example in a widget's
    callback.
    """
    ipython = sys.modules.get("IPython")  # code that runs in IPython has imported it
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None:
        return None
    kernel = getattr(shell, "kernel", None)
    return _terminal_run(shell) if kernel is None else run_of_request(kernel.get_parent("shell"))


def run_of_request(request: Mapping[str, Any]) -> Run | None:
    """Return the run that this message asks a kernel for; None if it asks for something else."""
    header = request.get("header") or {}
    if header.get("msg_type") != "execute_request" or not header.get("msg_id"):
        return None
    number = str(header["msg_id"])
    if cell_id := (request.get("metadata") or {}).get("cellId"):
        return Run(f"id {cell_id}", number)
    return _run_of_text((request.get("content") or {}).get("code") or "", number)


def _terminal_run(shell: Any) -> Run | None:
    count = shell.execution_count
    inputs = shell.user_ns.get("In") or []
    return _run_of_text(inputs[count], str(count)) if 0 < count < len(inputs) else None


def _run_of_text(source: str, number: str) -> Run | None:
    if not source.strip():
        return None
    return Run(f"text {hashlib.sha256(source.encode('utf-8', 'replace')).hexdigest()}", number)
