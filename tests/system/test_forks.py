"""A fork of a process in which something is open: it ends, cannot use it, and leaves it as it was."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("forking.py")


@pytest.mark.parametrize("how", ["by_multiprocessing", "by_fork", "by_data_loader"])
def test_a_fork_ends_and_leaves_its_parents_duet_alone(how: str) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), how], capture_output=True, text=True, timeout=100, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == 0
    ours = [line for line in done.stdout.splitlines() if line in ("used", "done")]
    assert ours == ["used", "done"]
