"""Rooms one after the other: what they are forked from and what they work for holds no more at the end."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from pathlib import Path

from duetlink.compute.worker.kernel import rooms
from duetlink.compute.worker.kernel.process import Room
from tests.system.descendants import descendants

WARM_UP = 100  # rooms, before what is held is compared
MORE_BYTES = 24 * 1024 * 1024  # that a process may hold at the end; a room leaves less than a page


@dataclass(frozen=True)
class Held:
    """By this process and what it forks rooms from, while no room works."""

    rooms: int
    descriptors: tuple[int, int]
    processes: int
    resident_bytes: tuple[int, int]


async def many(number: int) -> tuple[list[Held], list[float]]:
    """What is held after WARM_UP rooms, and from time to time until the last; how long each took to be ready,
    in seconds.
    """
    leave = rooms.use()
    held: list[Held] = []
    took_s: list[float] = []
    for done in range(1, number + 1):
        begin_s = time.perf_counter()
        room = await Room.start(libraries=("numpy",))
        took_s.append(time.perf_counter() - begin_s)
        await room.close()
        if done >= WARM_UP and (done - WARM_UP) % 100 == 0:
            held.append(_held(done))
    await leave()
    return held, took_s


def _held(done: int) -> Held:
    own = os.getpid()
    found = descendants(own)
    (zygote,) = (one.pid for one in found if one.parent == own)
    both = (own, zygote)
    return Held(
        done,
        tuple(len(os.listdir(f"/proc/{pid}/fd")) for pid in both),  # type: ignore[arg-type]
        len(found),
        tuple(map(_resident_bytes, both)),  # type: ignore[arg-type]
    )


def _resident_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) * 1024


def rises(held: list[Held]) -> list[str]:
    """What is more at the end than it was at the beginning, in words."""
    first, last = held[0], held[-1]
    found = []
    for what, before, after, most in (
        ("descriptors of this process", first.descriptors[0], last.descriptors[0], 4),
        ("descriptors of the zygote", first.descriptors[1], last.descriptors[1], 2),
        ("processes", first.processes, last.processes, 1),  # a spare room, with its four descriptors
        ("bytes of this process", first.resident_bytes[0], last.resident_bytes[0], MORE_BYTES),
        ("bytes of the zygote", first.resident_bytes[1], last.resident_bytes[1], MORE_BYTES),
    ):
        if after > before + most:
            found.append(f"{what}: {before:,} after {first.rooms:,} rooms, {after:,} after {last.rooms:,}")
    return found


def run(number: int) -> tuple[list[Held], list[float]]:
    """See `many`."""
    return asyncio.run(many(number))
