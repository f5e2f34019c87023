"""How a demo ends that does not come to its end: with a word about it, and nothing left behind."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from duetlink.groups.lifecycle.status import GoneStatus, GroupStatus, LinkStatus, MemberStatus, SumStatus
from duetlink.testing.faults import set_constants
from duetlink.tools.demo import play
from duetlink.tools.demo.errors import DemoFailed
from duetlink.tools.demo.lesson import Lesson
from duetlink.tools.demo.player import Player
from duetlink.tools.demo.summary import read_group_status, tell_group
from tests import light_rooms
from tests.tools.demo.played import NOTEBOOKS, left_behind

pytestmark = pytest.mark.slow


@pytest.fixture
def notebooks(tmp_path: Path) -> Path:
    """A copy of both notebooks, so that a test may change them and leaves no copies in the clone."""
    directory = tmp_path / "notebooks"
    directory.mkdir()
    for role in ("owner", "scientist"):
        shutil.copy(NOTEBOOKS / "1-basics" / f"{role}.ipynb", directory)
    return directory


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    own = {"JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"), "COLUMNS": "110", "TERM": "dumb"}
    return os.environ | own | light_rooms.of_kernels(tmp_path / "ipython")


def demo(notebooks: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "duetlink", "demo", "--notebooks", str(notebooks), *more]


def break_cell(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_a_failing_cell_is_shown_and_ends_everything(
    notebooks: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    break_cell(notebooks / "scientist.ipynb", "print(ages, ", "print(1 / 0, ")
    done = subprocess.run(
        demo(notebooks), cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: scientist.ipynb, '2. Look around': ZeroDivisionError")
    assert len(done.stderr.splitlines()) == 1
    assert "1 / 0" in done.stdout
    assert (tmp_path / "duetlink-demo" / "notebooks" / "scientist.ipynb").exists()
    assert sorted(os.listdir(notebooks)) == ["owner.ipynb", "scientist.ipynb"]
    assert left_behind(environment) == []


def test_too_little_time_says_where_both_are(
    notebooks: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    break_cell(notebooks / "owner.ipynb", "duet = duetlink", "import time; time.sleep(600); duet = duetlink")
    done = subprocess.run(
        demo(notebooks, "--timeout", "10"),
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: not done within 10 s")
    assert "owner.ipynb is at '1. Open a duet'" in done.stderr
    assert "scientist.ipynb is at '1. Join the duet'" in done.stderr
    assert left_behind(environment) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_nothing(
    number: signal.Signals, notebooks: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    break_cell(notebooks / "owner.ipynb", "request.deny(", "import time; time.sleep(600); (")
    process = subprocess.Popen(
        demo(notebooks), cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    )
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


def test_a_player_that_misses_a_cancellation_is_asked_again(
    notebooks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_constants(monkeypatch, play, ASK_AGAIN_S=0.01)
    asked = 0

    class Stubborn(Player):
        async def start(self, environment: Mapping[str, str]) -> None:
            nonlocal asked
            if self.role == "scientist":
                raise DemoFailed("the first")
            while asked < 3:  # misses two
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.Event().wait()
                asked += 1

    monkeypatch.setattr(play, "Player", Stubborn)
    lesson = Lesson("basics", (notebooks / "owner.ipynb", notebooks / "scientist.ipynb"))
    with pytest.raises(DemoFailed, match="the first"):
        play.play(Console(file=io.StringIO()), lesson, 60.0, tmp_path)
    assert asked == 3


def test_the_status_of_a_group_comes_out_of_its_kernel_as_it_was() -> None:
    status = GroupStatus(
        *("ready", None, "amber tulip seven", 2, 0, 2),
        members=(MemberStatus(0, "Ada", "this member", 0.0), MemberStatus(1, "Ben", "connected", 1.5)),
        links=(LinkStatus(0, 1, "tcp", 0.012, None, True),),
        operation=None,
        gone=(GoneStatus(2, "Cleo", 1, 1000.0, "silent", "no word for 20 s"),),
        sum=SumStatus("auto", "union", 0.05, 1000, 20_000, "a report"),
    )
    group = SimpleNamespace(status=lambda: status)
    assert read_group_status(tell_group({"group": group})) == status
