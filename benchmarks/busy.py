"""A busy link: 10,000 small objects sent in turn while 1 GiB moves, and how long a ping takes then."""

from __future__ import annotations

import statistics
import threading
import time

import click

from benchmarks.command import benchmark
from benchmarks.harness import GIB, MIB, report
from benchmarks.owner import Owner
from duetlink import Settings

QUICK = {"messages": 10, "size_mib": 1}


@benchmark
@click.option("--messages", type=click.IntRange(1), default=10_000, show_default=True, help="Objects sent.")
@click.option("--size-mib", type=click.IntRange(1), default=1024, show_default=True, help="Of the arrays.")
def main(messages: int, size_mib: int) -> None:
    owner = Owner(Settings(only=("tcp",), held_bytes=1))
    scientist = owner.scientist
    owner.share("big", "float64", (size_mib * MIB // 8,), 1)
    pointer = scientist.store["big"]
    pointer.get(timeout_s=600)
    done = threading.Event()
    moved = 0
    pings: list[float] = []

    def move() -> None:
        nonlocal moved
        while not done.is_set():
            moved += pointer.get(timeout_s=600).nbytes

    def ping() -> None:
        while not done.wait(0.01):
            pings.append(scientist.ping())

    idle = [scientist.ping() for _ in range(200)]
    threads = [threading.Thread(target=work) for work in (move, ping)]
    for thread in threads:
        thread.start()
    started_s = time.perf_counter()
    for number in range(messages):
        scientist.send(number, "number")
        # objects arrive in order: the newest is the one that the owner holds
        if number % 1000 == 999 or number == messages - 1:
            assert owner.received("number") == number
    taken_s = time.perf_counter() - started_s
    done.set()
    for thread in threads:
        thread.join()
    pings.sort()
    rows = [
        ["ping, idle link, median", f"{statistics.median(idle) * 1000:.2f} ms"],
        ["ping, busy link, median", f"{statistics.median(pings) * 1000:.2f} ms"],
        ["ping, busy link, 99th of 100", f"{pings[len(pings) * 99 // 100] * 1000:.2f} ms"],
        ["ping, busy link, longest", f"{pings[-1] * 1000:.2f} ms"],
        ["objects sent and acknowledged", f"{messages / taken_s:.0f} a second"],
        ["moved meanwhile", f"{moved / GIB:.3g} GiB"],
    ]
    title = f"{messages} objects sent while arrays of {size_mib} MiB move over tcp, two processes, "
    title += f"{len(pings)} pings"
    hundredths = {"idle_s": statistics.quantiles(idle, n=100), "busy_s": statistics.quantiles(pings, n=100)}
    report("busy", title, ["what", "figure"], rows, {"taken_s": taken_s, "hundredths": hundredths})
    owner.close()


if __name__ == "__main__":
    main()
