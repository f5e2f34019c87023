"""The thread that writes: in order, several changes at once, and what it says when the disk fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from duetlink import errors
from duetlink.duet.state.file import StateFile
from duetlink.duet.state.records import Key
from duetlink.duet.state.writer import StateWriter


class Disk(StateFile):
    """Fails while `full`; knows what it was asked to write."""

    full = False

    def write(self, changes: Mapping[Key, str | None], *, sync: bool) -> None:
        self.asked = getattr(self, "asked", [])
        self.asked.append((dict(changes), sync))
        if self.full:
            raise errors.StateUnavailable("no space left")
        super().write(changes, sync=sync)


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk.create(tmp_path / "state.sqlite")


@pytest.fixture
async def writer(disk: Disk) -> AsyncIterator[StateWriter]:
    writer = StateWriter(disk)
    yield writer
    await writer.close()


async def test_what_was_put_before_is_written_when_it_says_so(writer: StateWriter, disk: Disk) -> None:
    for number in range(100):
        writer.put({("count", "[]"): str(number), ("asset", f"[{number % 7}]"): str(number)})
    await writer.written()
    assert disk.read() == {("count", "[]"): "99"} | {
        ("asset", f"[{number % 7}]"): str(number) for number in range(93, 100)
    }
    assert len(disk.asked) < 100
    assert disk.asked[-1][1]


async def test_without_sync_it_is_not_synced(writer: StateWriter, disk: Disk) -> None:
    writer.put({("asset", "[]"): "1"})
    await writer.written(sync=False)
    assert disk.read() == {("asset", "[]"): "1"}
    assert not any(sync for _, sync in disk.asked)


async def test_a_failure_is_told_and_tried_again_with_what_comes_nex(writer: StateWriter, disk: Disk) -> None:
    disk.full = True
    writer.put({("asset", "[1]"): "1"})
    with pytest.raises(errors.StateUnavailable, match="no space left"):
        await writer.written()
    assert writer.failure == "no space left"
    assert disk.read() == {}
    disk.full = False
    writer.put({("asset", "[2]"): "2"})
    await writer.written()
    assert writer.failure == ""
    assert disk.read() == {("asset", "[1]"): "1", ("asset", "[2]"): "2"}


async def test_whoever_gives_up_waiting_has_it_written_all_the_same(writer: StateWriter, disk: Disk) -> None:
    writer.put({("asset", "[1]"): "1"})
    waiting = asyncio.ensure_future(writer.written())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await writer.written()
    assert disk.read() == {("asset", "[1]"): "1"}


async def test_closing_writes_what_waits_and_then_nothing(disk: Disk, tmp_path: Path) -> None:
    ended = []
    writer = StateWriter(disk, lambda: ended.append(1))
    writer.put({("asset", "[1]"): "1"})
    await asyncio.gather(writer.close(), writer.close())
    assert ended == [1]
    writer.put({("asset", "[2]"): "2"})
    with pytest.raises(errors.StateUnavailable, match="closed"):
        await writer.written()
    again = StateFile.open(tmp_path / "state.sqlite")
    assert again.read() == {("asset", "[1]"): "1"}
    again.close()
