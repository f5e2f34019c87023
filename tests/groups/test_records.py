"""The audit log of a group: what is written on the loop, on another thread, and when it reaches the disk."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from pathlib import Path

import numpy as np
import pytest

from duetlink.base.audit.read import entries
from duetlink.base.journal import files
from duetlink.base.journal.lock import JournalLock
from duetlink.groups.api.records import Records
from duetlink.settings import Settings

VALUE = np.zeros(3)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


@pytest.fixture
def records(path: Path) -> Records:
    return Records(dataclasses.replace(Settings(), audit_path=str(path)))


def names(path: Path) -> list[str]:
    return [entry.name for entry, _ in entries(path)]


async def test_an_operation_is_written_when_the_call_returns(path: Path, records: Records) -> None:
    await records.operation("first", "ben", VALUE, 1)
    await records.operation("second", "ben", VALUE, 1)
    assert names(path) == ["first", "second"]
    assert [entry.size_bytes for entry, _ in entries(path)] == [24, 24]
    await records.closed("done")


async def test_a_lock_that_another_process_holds_does_not_block_the_loop(
    path: Path, records: Records
) -> None:
    await records.operation("first", "ben", VALUE, 1)
    held, release = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def hold() -> None:
        with JournalLock(path, 5.0).held():
            loop.call_soon_threadsafe(held.set)
            assert release.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    async with asyncio.timeout(20):
        await held.wait()
        writing = asyncio.ensure_future(records.operation("second", "ben", VALUE, 1))
        await asyncio.sleep(0)  # it has given up by now, and the loop goes on
        assert not writing.done()
        assert names(path) == ["first"]
        release.set()
        await writing
    thread.join(10)
    assert names(path) == ["first", "second"]
    await records.closed("done")


async def test_operations_reach_the_disk_soon_after(
    path: Path, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, synced = asyncio.get_running_loop(), asyncio.Event()
    sync = files.sync

    def note(fd: int) -> None:
        sync(fd)
        loop.call_soon_threadsafe(synced.set)

    monkeypatch.setattr(files, "sync", note)
    async with asyncio.timeout(20):
        for name in ("first", "second"):
            await records.operation(name, "ben", VALUE, 1)
            await synced.wait()
            synced.clear()
    await records.closed("done")
