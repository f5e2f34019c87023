"""A member of a soak's group. What it gives says who it is, so that a result says who was in."""

from __future__ import annotations

from typing import Any

import numpy as np

import duetlink
from duetlink.errors import PeerLost
from duetlink.groups.api.group import Group
from duetlink.settings import Settings

# a killed member is known soon, and a busy machine loses none
SETTINGS = Settings(heartbeat_interval_s=0.3, heartbeat_timeout_s=5.0, pairing_timeout_s=60.0)
PATIENCE_S = 200.0
NUMBERS = {"ann": 1, "ben": 2, "cleo": 4, "newcomer": 8}


class Side:
    def __init__(self, name: str, code: str | None) -> None:
        self.group: Group = duetlink.group(code, name=name, settings=SETTINGS, patience_s=2.0)
        self.number = NUMBERS[name]
        self.code = self.group.code

    def admit(self, count: int) -> None:
        """Let in who waits, once so many are there."""
        self.group.wait_members(count, PATIENCE_S)
        self.group.admit()
        assert self.group.size == count, f"{self.group.size} members, not {count}"

    def work(self, names: list[str]) -> int:
        """Some operations with these members; returns how many. AssertionError: a result is wrong."""
        group, number, every = self.group, self.number, [NUMBERS[name] for name in names]
        total, weights = sum(every), sum(each * each for each in every)
        for size in (1, 5_000, 200_000):
            equal(group.all_reduce(np.full(size, number), timeout_s=PATIENCE_S), total)
            equal(group.all_reduce(np.full(size, number / 2), timeout_s=PATIENCE_S), total / 2)
        sparse = np.zeros(100_000, np.float32)
        sparse[number] = number
        found = group.all_reduce(sparse, codec="auto", timeout_s=PATIENCE_S)
        assert sorted(np.flatnonzero(found)) == sorted(every) == sorted(found[found != 0]), found[:9]
        state = {"w": np.full(3_000, float(number)), "b": np.full(7, float(number))}
        mean = group.average(state, weight=number, timeout_s=PATIENCE_S)
        for each in mean.values():
            assert np.allclose(each, weights / total, rtol=1e-12, atol=0), each[:3]
        equal(group.all_reduce(np.full(2_000, number), secure=True, timeout_s=PATIENCE_S), total)
        assert sorted(group.all_gather(number, timeout_s=PATIENCE_S)) == sorted(every)
        return 11

    def survive(self, count: int) -> None:
        """Wait in an operation for one who will not come any more, until so many are left and it is done."""
        for _ in range(4):
            try:
                self.group.barrier(timeout_s=PATIENCE_S)
            except PeerLost:
                continue
            if self.group.size == count:
                return
        raise AssertionError(f"{self.group.size} members, not {count}: {self.group!r}")

    def close(self) -> None:
        self.group.close()


def equal(found: Any, expected: float) -> None:
    assert (found == expected).all(), f"{np.unique(found)[:5]}, not {expected}"
