"""The file of a state: what was said to be written is there after any end, and damage is found."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duetlink import errors
from duetlink.duet.state.file import FORMAT, StateFile
from duetlink.duet.state.records import Key

Records = dict[Key, str]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "clinic").mkdir()
    return tmp_path / "clinic" / "state.sqlite"


@pytest.fixture
def file(path: Path) -> Iterator[StateFile]:
    file = StateFile.create(path)
    yield file
    file.close()


def stored(path: Path, *, read_only: bool = False) -> Records:
    file = StateFile.open(path, read_only=read_only)
    try:
        return file.read()
    finally:
        file.close()


def test_a_new_file_is_empty_and_only_its_owners(file: StateFile, path: Path) -> None:
    assert file.read() == {}
    file.write({("asset", "[1]"): "1"}, sync=True)
    assert {oct(found.stat().st_mode & 0o777) for found in path.parent.iterdir()} == {"0o600"}


def test_records_are_put_replaced_and_taken_out(file: StateFile, path: Path) -> None:
    file.write({("asset", '["x"]'): "1", ("asset", '["y"]'): "2", ("policy", '["x"]'): "3"}, sync=True)
    file.write({("asset", '["x"]'): "4", ("asset", '["y"]'): None, ("asset", '["z"]'): None}, sync=False)
    file.write({}, sync=True)
    assert file.read() == {("asset", '["x"]'): "4", ("policy", '["x"]'): "3"}
    file.close()
    assert stored(path) == {("asset", '["x"]'): "4", ("policy", '["x"]'): "3"}


def test_whoever_looks_while_it_is_written_sees_the_latest(file: StateFile, path: Path) -> None:
    looking = StateFile.open(path, read_only=True)
    file.write({("asset", "[1]"): "1"}, sync=False)
    assert looking.read() == {("asset", "[1]"): "1"}
    file.write({("asset", "[1]"): "2"}, sync=True)
    assert looking.read() == {("asset", "[1]"): "2"}
    looking.close()


def test_a_torn_journal_holds_the_transactions_before_the_tear(file: StateFile, path: Path) -> None:
    """Cut at every 211th byte and around each transaction's end: all of a transaction is there, or none."""
    journal = path.with_name(path.name + "-wal")
    ends, states = [], []
    for number in range(4):
        file.write({("asset", f"[{number}]"): f'"{number}"', ("asset", "[9]"): f"{number}"}, sync=True)
        ends.append(journal.stat().st_size)
        states.append(file.read())
    whole, main = journal.read_bytes(), path.read_bytes()
    cuts = {cut for end in ends for cut in (end - 1, end, end + 1) if cut <= len(whole)}
    torn = path.parent.with_name("torn") / path.name
    torn.parent.mkdir()
    for cut in sorted(cuts | set(range(0, len(whole), 211))):
        for left in torn.parent.iterdir():
            left.unlink()
        torn.write_bytes(main)
        torn.with_name(journal.name).write_bytes(whole[:cut])
        complete = sum(end <= cut for end in ends)
        assert stored(torn) == (states[complete - 1] if complete else {}), cut


def filled(path: Path) -> tuple[bytes, Records]:
    """A file of several pages, closed."""
    file = StateFile.create(path)
    records = {
        ("request", f"[{number}]"): f'{{"number":{number},"reason":"{"r" * 60}"}}' for number in range(60)
    }
    file.write(dict(records), sync=True)
    file.close()
    assert [found.name for found in path.parent.iterdir()] == [path.name]
    return path.read_bytes(), records


def test_a_file_cut_anywhere_is_broken(path: Path) -> None:
    content, _ = filled(path)
    for cut in [0, 1, 99, 100, 4095, 4096, 4097, len(content) - 1, *range(0, len(content), 301)]:
        path.write_bytes(content[:cut])
        with pytest.raises(errors.StateBroken, match="duetlink state forget clinic"):
            stored(path)


def test_no_changed_byte_is_taken_for_what_was_written(path: Path) -> None:
    content, records = filled(path)
    found_broken = 0
    for place in range(0, len(content), 17):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x04]) + content[place + 1 :])
        try:
            assert stored(path, read_only=True) == records, place
        except (errors.StateBroken, errors.StateUnavailable):
            found_broken += 1
    assert found_broken > 300  # the others are unused space


def test_a_row_changed_with_sqlites_own_tools_is_found(path: Path) -> None:
    filled(path)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE records SET value = replace(value, '\"number\":7,', '\"number\":8,')")
    connection.commit()
    connection.close()
    with pytest.raises(errors.StateBroken, match=r"request \[7\] does not match its digest"):
        stored(path)


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0", b"{}", b"\0" * 9000])
def test_what_is_no_such_file_is_broken_and_left_as_it_is(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(errors.StateBroken, match="Nothing was changed"):
        StateFile.open(path)
    assert path.read_bytes() == content


def test_another_programs_database_is_refused(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE records (kind, key, value, digest)")
    connection.close()
    with pytest.raises(errors.StateBroken, match="another program"):
        StateFile.open(path)


def test_a_newer_version_is_refused_with_words(path: Path) -> None:
    filled(path)
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {FORMAT + 1}")
    connection.close()
    with pytest.raises(errors.StateBroken, match=rf"newer version of duetlink \(format {FORMAT + 1}"):
        StateFile.open(path)


def test_a_file_that_is_missing_or_forbidden_is_not_broken(path: Path) -> None:
    with pytest.raises(errors.StateUnavailable, match="DUETLINK_STATE_PATH"):
        StateFile.open(path)


def test_a_creation_that_was_cut_short_is_begun_again(path: Path) -> None:
    path.with_name(path.name + ".new").write_bytes(b"SQLite format 3\0 and no more")
    path.with_name(path.name + ".new-journal").write_bytes(b"torn")
    StateFile.create(path).close()
    assert stored(path) == {}
    assert [found.name for found in path.parent.iterdir()] == [path.name]


def test_where_the_disk_is_full_nothing_of_a_transaction_is_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections: list[sqlite3.Connection] = []

    class Noted(sqlite3.Connection):
        def __init__(self, *arguments: Any, **keywords: Any) -> None:
            super().__init__(*arguments, **keywords)
            connections.append(self)

    monkeypatch.setattr(sqlite3, "connect", Noted)
    file = StateFile.create(path)
    file.write({("asset", "[1]"): "1"}, sync=True)
    (pages,) = connections[-1].execute("PRAGMA page_count").fetchone()
    connections[-1].execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(errors.StateUnavailable, match="full"):
        file.write({("asset", "[1]"): "2", ("asset", "[2]"): '"' + "x" * 20_000 + '"'}, sync=True)
    assert file.read() == {("asset", "[1]"): "1"}
    connections[-1].execute("PRAGMA max_page_count = 1000")
    file.write({("asset", "[1]"): "3"}, sync=True)
    assert file.read() == {("asset", "[1]"): "3"}
    file.close()


WRITES = """
import sys
from pathlib import Path
from duetlink.duet.state.file import StateFile
file = StateFile.create(Path(sys.argv[1]))
for number in range(100_000):
    file.write({("asset", f"[{number}]"): str(number), ("count", "[]"): str(number)}, sync=number % 2 == 0)
    print(number, flush=True)
"""


def test_what_a_killed_process_has_written_is_there(path: Path) -> None:
    for kill_after in (1, 30, 150):
        shutil.rmtree(path.parent)
        path.parent.mkdir()
        child = subprocess.Popen([sys.executable, "-c", WRITES, str(path)], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        for _ in range(kill_after):
            said = child.stdout.readline()
        os.kill(child.pid, signal.SIGKILL)
        in_the_pipe = child.stdout.read().splitlines(keepends=True)
        child.stdout.close()
        child.wait(10)
        said = [said, *(line for line in in_the_pipe if line.endswith("\n"))][-1]
        found = stored(path)
        count = int(found.pop(("count", "[]")))
        assert count >= int(said)
        assert found == {("asset", f"[{number}]"): str(number) for number in range(count + 1)}
