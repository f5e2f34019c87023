"""Where a state lies: its names, one kernel at a time, and its end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from duetlink import errors
from duetlink.duet.state.directory import StateDirectory, state_directories
from duetlink.duet.state.file import StateFile

HOLDS = """
import sys
from pathlib import Path
from duetlink.duet.state.directory import StateDirectory
place = StateDirectory(Path(sys.argv[1]), "clinic")
place.hold()
print("held", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def held_by_another(states: Path) -> Iterator[int]:
    """Another process holds the place; the value is its id."""
    pipe = subprocess.PIPE
    child = subprocess.Popen([sys.executable, "-c", HOLDS, str(states)], stdin=pipe, stdout=pipe, text=True)
    assert child.stdout is not None
    assert child.stdin is not None
    try:
        assert child.stdout.readline() == "held\n"
        yield child.pid
    finally:
        child.kill()
        child.wait(10)
        child.stdout.close()
        child.stdin.close()


def begun(states: Path, name: str = "clinic") -> StateDirectory:
    place = StateDirectory(states, name)
    place.hold()
    StateFile.create(place.file).close()
    place.release()
    return place


@pytest.mark.parametrize("name", ["a", "clinic", "Clinic-2.1_b", "7", "x" * 64])
def test_names(tmp_path: Path, name: str) -> None:
    assert StateDirectory(tmp_path, name).directory == tmp_path / name


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".a", "-a", "_a", "a.", "a/b", "a\\b", "a b", "ä", "a\n", "x" * 65, 3, None, b"a"]
)
def test_what_cannot_be_a_name(tmp_path: Path, name: object) -> None:
    with pytest.raises(errors.SettingError, match="1 to 64 letters"):
        StateDirectory(tmp_path, name)  # type: ignore[arg-type]


def test_only_its_owner_may_enter(tmp_path: Path) -> None:
    place = begun(tmp_path / "deep" / "states")
    for path in (place.directory.parent, place.directory):
        assert oct(path.stat().st_mode & 0o777) == "0o700"
    assert {oct(path.stat().st_mode & 0o777) for path in place.directory.iterdir()} == {"0o600"}


def test_one_kernel_at_a_time_and_the_other_is_named(tmp_path: Path) -> None:
    place = StateDirectory(tmp_path, "clinic")
    with held_by_another(tmp_path) as process:
        assert place.is_held()
        with pytest.raises(errors.StateInUse, match=rf"'clinic' is in use by process {process}:"):
            place.hold()
        with pytest.raises(errors.StateInUse):
            place.remove()
        os.kill(process, signal.SIGKILL)
    assert not place.is_held()
    place.hold()
    with pytest.raises(RuntimeError, match=rf"in use by this process, {os.getpid()}:"):
        StateDirectory(tmp_path, "clinic").hold()
    assert place.holder() == f"this process, {os.getpid()}"
    place.release()
    place.release()
    assert place.holder() == ""


def test_another_name_is_another_state(tmp_path: Path) -> None:
    with held_by_another(tmp_path):
        study = StateDirectory(tmp_path, "study")
        study.hold()
        study.release()


@pytest.mark.parametrize("content", ["", "{", "3", '{"process": "x", "host": 1}', '{"process": 3}'])
def test_a_spoilt_note_of_who_holds_it_names_nobody(tmp_path: Path, content: str) -> None:
    place = begun(tmp_path)
    (place.directory / "in-use-by").write_text(content)
    assert place.holder() == ""


def test_a_state_whose_file_is_missing_is_broken_and_not_new(tmp_path: Path) -> None:
    place = begun(tmp_path)
    assert place.exists()
    place.ledger.write_text("spent")
    place.file.unlink()
    with pytest.raises(errors.StateBroken, match=r"lost its file .*state\.sqlite"):
        place.exists()


def test_a_kernel_that_ended_before_it_had_begun_has_left_nothing(tmp_path: Path) -> None:
    place = begun(tmp_path)
    place.file.rename(place.file.with_name("state.sqlite.new"))
    (place.directory / "in-use-by").write_text("{}")
    assert not place.exists()


def test_what_is_removed_is_gone_with_all_that_was_beside_it(tmp_path: Path) -> None:
    place = begun(tmp_path)
    place.ledger.write_text("spent")
    place.remove()
    assert list(tmp_path.iterdir()) == []
    assert not place.exists()
    begun(tmp_path)  # and may begin again


def test_places_are_those_with_a_name(tmp_path: Path) -> None:
    for name in ("b", "a", "_forgotten-1-a", ".hidden"):
        (tmp_path / name).mkdir()
    (tmp_path / "file").write_text("")
    assert [place.name for place in state_directories(tmp_path)] == ["a", "b"]
    assert state_directories(tmp_path / "none") == []


def test_a_directory_that_cannot_be_made_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "states").write_text("a file")
    with pytest.raises(errors.StateUnavailable, match="DUETLINK_STATE_PATH"):
        StateDirectory(tmp_path / "states", "clinic").hold()
