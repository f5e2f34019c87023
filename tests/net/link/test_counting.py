"""Counting: what threads count reaches the loop thread soon, and all of it."""

from __future__ import annotations

import asyncio
import threading

from duetlink.net.link.counting import Counting
from duetlink.net.link.transfer import COMPLETE, Transfer


class Counted:
    """The calls that a `Counting` made."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, int]] = []
        self.counting = Counting(self.count)

    def count(self, transfer: Transfer, size_bytes: int, wire_bytes: int) -> None:
        self.calls.append((transfer.name, size_bytes, wire_bytes))


async def test_the_first_bytes_are_passed_on_at_once_and_those_that_follow_as_one_sum() -> None:
    counted, transfer = Counted(), Transfer("scans", "in", 100)
    counted.counting.add(transfer, 10, 8)
    while not counted.calls:
        await asyncio.sleep(0)
    counted.counting.add(transfer, 20, 16)
    counted.counting.add(transfer, 30, 24)
    assert counted.calls == [("scans", 10, 8)]
    async with asyncio.timeout(10):
        while len(counted.calls) < 2:
            await asyncio.sleep(0)
    assert counted.calls == [("scans", 10, 8), ("scans", 50, 40)]


async def test_settling_passes_on_what_each_transfer_has_and_nothing_twice() -> None:
    counted = Counted()
    scans, ages = Transfer("scans", "in", 100), Transfer("ages", "out", 100)
    counted.counting.add(scans, 10, 10)
    counted.counting.add(ages, 20, 2)
    counted.counting.add(scans, 5, 5)
    counted.counting.settle()
    counted.counting.settle()
    assert counted.calls == [("scans", 15, 15), ("ages", 20, 2)]


async def test_bytes_that_come_after_a_transfer_has_ended_are_not_counted() -> None:
    counted, transfer = Counted(), Transfer("scans", "out", 100)
    transfer.end(COMPLETE)
    counted.counting.add(transfer, 10, 10)
    counted.counting.settle()
    assert counted.calls == []


async def test_all_bytes_of_many_threads_are_counted() -> None:
    counted, transfer = Counted(), Transfer("scans", "in", 8000)

    def move() -> None:
        for _ in range(1000):
            counted.counting.add(transfer, 1, 2)

    threads = [threading.Thread(target=move) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    counted.counting.settle()
    assert sum(size_bytes for _, size_bytes, _ in counted.calls) == 8000
    assert sum(wire_bytes for *_, wire_bytes in counted.calls) == 16000
