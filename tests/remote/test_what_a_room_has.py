"""What is mapped into the process that runs a program: the objects that it names, and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from duetlink.compute.worker.kernel.process import Reply, Room
from tests.remote.conftest import Bench

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it looks at /proc")

SECRET = b"a text that no other object has, 1815-12-10"


@pytest.fixture
def mapped(monkeypatch: pytest.MonkeyPatch) -> list[list[bytes]]:
    """The sealed memory of a room, part by part, when it is told to run; of each room one list."""
    found: list[list[bytes]] = []
    call = Room.call

    async def watched(self: Room, command: str, content: bytes = b"", *more: Any, **named: Any) -> Reply:
        if command in ("asset", "run") and not self.ended.done():
            found.append(_sealed(self.pid))
        return await call(self, command, content, *more, **named)

    monkeypatch.setattr(Room, "call", watched)
    return found


def _sealed(pid: int) -> list[bytes]:
    lines = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines()
    return [_content(pid, line) for line in lines if "memfd:duetlink" in line]


def _content(pid: int, line: str) -> bytes:
    start, end = (int(address, 16) for address in line.split()[0].split("-"))
    with Path(f"/proc/{pid}/mem").open("rb") as memory:
        memory.seek(start)
        return memory.read(end - start)


def test_a_room_has_what_its_program_names(bench: Bench, mapped: list[list[bytes]]) -> None:
    x = bench.share(np.arange(1000.0), "named")
    mock = {"note": "", "x": np.full(5, 7)}
    bench.share({"note": SECRET.decode(), "x": np.arange(5)}, "unnamed", mock=mock)
    secret = bench.scientist.wait_object("unnamed", 10)
    (secret["x"] + 1).sum().get(reason="its room has it")
    assert any(SECRET in part for parts in mapped for part in parts)
    mapped.clear()
    assert (x * 2).sum().get(reason="its room has it not") == 999_000
    # before the asset came, and after; the scientist's side may run it on the mock beside that
    assert {len(parts) for parts in mapped} == {0, 1}
    assert any(np.arange(1000.0).tobytes() in part for parts in mapped for part in parts)
    assert not any(SECRET in part for parts in mapped for part in parts)
