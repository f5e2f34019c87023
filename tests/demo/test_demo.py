"""The whole demo: two real kernels, a real signaling server, and nothing left behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
pytestmark = pytest.mark.slow


@pytest.fixture
def notebooks(tmp_path: Path) -> Path:
    """A copy of both notebooks, so that a test may change them and leaves no copies in the clone."""
    directory = tmp_path / "notebooks"
    directory.mkdir()
    for role in ("owner", "scientist"):
        shutil.copy(NOTEBOOKS / f"{role}.ipynb", directory)
    return directory


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    # kernels and servers of this demo are known by this directory, wherever they end up in the process tree
    return os.environ | {"JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"), "COLUMNS": "110", "TERM": "dumb"}


def demo(notebooks: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "duetlink", "demo", "--notebooks", str(notebooks), *more]


def left_behind(environment: dict[str, str]) -> list[psutil.Process]:
    mark = environment["JUPYTER_RUNTIME_DIR"]
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get("JUPYTER_RUNTIME_DIR") == mark:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


def break_cell(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_the_demo_pairs_asks_answers_and_tells(notebooks: Path, environment: dict[str, str]) -> None:
    environment["DUETLINK_ONLY"] = "tcp,channel"
    done = subprocess.run(demo(notebooks), env=environment, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "✓ the same on both sides" in done.stdout
    lines = done.stdout.splitlines()
    assert ["path", "for", "arrays", "tcp"] in [line.split() for line in lines]
    asked = [line for line in lines if line.rstrip().endswith("approved") or " denied" in line]
    assert any("patients" in line and "just curious" in line and "denied" in line for line in asked)
    assert any("patients" in line and "logistic regression" in line and "approved" in line for line in asked)
    moved = [line.split() for line in lines if "→" in line]
    assert [(row[0], row[1], row[3], row[-1]) for row in moved] == [
        ("patients", "owner", "scientist", "tcp"),
        ("field", "owner", "scientist", "tcp"),
        ("model", "scientist", "owner", "inline"),
    ]
    for role in ("owner", "scientist"):
        executed = json.loads((notebooks / "run" / f"{role}.ipynb").read_text(encoding="utf-8"))
        assert all(cell["execution_count"] for cell in executed["cells"] if cell["cell_type"] == "code")
    assert left_behind(environment) == []


def test_a_failing_cell_is_shown_and_ends_everything(notebooks: Path, environment: dict[str, str]) -> None:
    break_cell(notebooks / "scientist.ipynb", "just curious", '" + str(1 / 0) + "'.replace('"', '\\"'))
    done = subprocess.run(demo(notebooks), env=environment, capture_output=True, text=True, timeout=110)
    assert done.returncode == 1
    assert done.stderr.startswith("error: scientist.ipynb, '3. Ask, and be turned down': ZeroDivisionError")
    assert len(done.stderr.splitlines()) == 1
    assert "1 / 0" in done.stdout
    assert (notebooks / "run" / "scientist.ipynb").exists()
    assert left_behind(environment) == []


def test_too_little_time_says_where_both_are(notebooks: Path, environment: dict[str, str]) -> None:
    break_cell(notebooks / "owner.ipynb", "request.deny(", "import time; time.sleep(600); (")
    done = subprocess.run(
        demo(notebooks, "--timeout", "15"), env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: not done within 15 s")
    assert "owner.ipynb is at '4. Say no to a weak reason'" in done.stderr
    assert "scientist.ipynb is at '3. Ask, and be turned down'" in done.stderr
    assert left_behind(environment) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_nothing(
    number: signal.Signals, notebooks: Path, environment: dict[str, str]
) -> None:
    break_cell(notebooks / "owner.ipynb", "request.deny(", "import time; time.sleep(600); (")
    process = subprocess.Popen(demo(notebooks), env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if "2. Look around" in line:
                break
        process.send_signal(number)
        process.stdout.read()
        assert process.wait(timeout=30) == 130
    finally:
        process.kill()
        process.communicate()
    assert left_behind(environment) == []
