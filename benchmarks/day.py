"""A day compressed: 10,000 transfers and 50 reconnects of one link, and what two notebooks hold meanwhile."""

from __future__ import annotations

import dataclasses
import gc
import os
import threading
from pathlib import Path
from typing import Any

import click
import numpy as np
import psutil

import duetlink
from benchmarks.command import benchmark
from benchmarks.harness import report
from duetlink.settings import KIB, MIB, PATHS, Settings

SIZE_BYTES = 200 * KIB

# so that a lost connection is noticed within a second, and every transfer moves its bytes
QUICK = Settings(heartbeat_interval_s=0.1, heartbeat_timeout_s=0.6, held_bytes=1)


@benchmark
@click.option("--transfers", type=click.IntRange(5), default=10_000, show_default=True, help="Of each link.")
@click.option("--reconnects", type=click.IntRange(1), default=50, show_default=True, help="Of each link.")
def main(transfers: int, reconnects: int) -> None:
    if transfers < reconnects:
        raise click.UsageError(f"{transfers} transfers are too few for {reconnects} reconnects")
    for only in (PATHS, ("tcp", "udp", "channel")):
        _day(dataclasses.replace(QUICK, only=only), transfers, reconnects)


def _day(settings: Settings, transfers: int, reconnects: int) -> None:
    with (
        duetlink.launch(settings=settings) as owner,
        duetlink.join(str(owner.code), settings=settings) as scientist,
    ):
        array = np.random.default_rng(0).integers(0, 256, SIZE_BYTES, np.uint8)
        owner.share(array, "x")
        pointer = scientist.wait_object("x", 30)
        request = pointer.request(reason="a day")
        owner.wait_request(30).approve()
        request.result(30)
        held = []
        every = transfers // reconnects
        for number in range(transfers + 1):
            if number % (transfers // 5) == 0:
                held.append((number, _held()))
            if not np.array_equal(pointer.get(timeout_s=60), array):
                raise SystemExit(f"transfer {number} brought other bytes")
            if number % every == every // 2:
                _lose_connection(owner if number % 2 else scientist)
                _wait_reconnected(owner, scientist, number // every + 1)
        path = scientist.statistics().path
        rows = [[str(number), *(f"{value:,}" for value in values.values())] for number, values in held]
        title = (
            f"{transfers} transfers of {SIZE_BYTES // KIB} KiB over {path}, {reconnects} reconnects, both "
            "notebooks in one process"
        )
        report(f"day_{path}", title, ["transfers", *held[0][1]], rows, {"held": held})


def _held() -> dict[str, int]:
    """What this process and its children hold."""
    gc.collect()
    me = psutil.Process()
    family = [me, *me.children(recursive=True)]
    return {
        "processes": len(family),
        "memory, MiB": sum(process.memory_info().rss for process in family) // MIB,
        "descriptors": sum(process.num_fds() for process in family),
        "threads": sum(process.num_threads() for process in family),
        "shared memory, KiB": _shared_memory_bytes() // KIB,
    }


def _shared_memory_bytes() -> int:
    found = 0
    for fd in Path("/proc/self/fd").iterdir():
        try:
            if os.readlink(fd).startswith("/memfd:duetlink"):
                found += fd.stat().st_size
        except OSError:
            continue
    return found


def _lose_connection(duet: duetlink.Duet) -> None:
    """Let nothing leave the sockets of this duet's connection any more."""

    async def cut() -> None:
        connection: Any = duet._life.link._lifeline._connection
        for protocol in connection._pc.sctp.transport.transport._connection._protocols:
            protocol.transport.sendto = lambda data, address=None: None

    duet._thread.run(cut())


def _wait_reconnected(owner: duetlink.Duet, scientist: duetlink.Duet, times: int) -> None:
    for duet in (owner, scientist):
        while duet.statistics().reconnects < times or duet.state != "connected":
            threading.Event().wait(0.01)


if __name__ == "__main__":
    main()
