"""The scientist of a soak's duet: asks for objects, works with pointers, asks for results, is refused."""

from __future__ import annotations

import threading
from collections import Counter

import duetlink
from duetlink.errors import RequestDenied
from tests.soak import tables
from tests.soak.half import Half, settings

PATIENCE_S = 200.0
WORKED_ON = ("open 2", "open 10", "open 20")


class Side(Half):
    def __init__(self, code: str, only: tuple[str, ...]) -> None:
        super().__init__(duetlink.join(code, name="scientist", settings=settings(only)))

    def work(self, version: int, revisions: dict[str, int]) -> dict[str, int]:
        """One cycle's: returns how many of each kind. AssertionError: a value is wrong."""
        done: Counter[str] = Counter()
        for name in tables.NAMES:
            self._take(name, version, revisions[name], done)
        for name in WORKED_ON:
            self._work_on(name, version, done)
        return dict(done)

    def _take(self, name: str, version: int, revision: int, done: Counter[str]) -> None:
        pointer = self.duet.wait_object(name, PATIENCE_S, revision=revision)
        # no two cycles ask in the same words, as no two days do
        reason = f"cycle {version}, please"
        if name in tables.ASKED[::2]:
            try:
                pointer.get(reason=f"cycle {version}", timeout_s=PATIENCE_S)
            except RequestDenied:
                done["denied"] += 1
        value = pointer.get(reason=reason, timeout_s=PATIENCE_S)
        assert tables.same(value, tables.content(name, version)), f"{name!r} is wrong in version {version}"
        assert tables.same(pointer.get(timeout_s=PATIENCE_S), value), f"{name!r} is wrong the second time"
        done["got"] += 2

    def _work_on(self, name: str, version: int, done: Counter[str]) -> None:
        x, pointer = tables.content(name, version), self.duet.store[name]
        assert pointer.mock.shape == x.shape
        double = pointer * 2 + 1
        (double - 1).std()  # nobody asks for it
        found = double.sum().get(reason=f"the sum of cycle {version}", timeout_s=PATIENCE_S)
        assert abs(found - (x * 2 + 1).sum()) < 1e-6 * x.size
        request = pointer[:10].request(reason=f"the first ten of cycle {version}")
        assert tables.same(request.result(PATIENCE_S), x[:10])
        done["results"] += 2

    def miss(self) -> None:
        """Wait until what was unshared is gone."""
        while any(name in self.duet.store for name in tables.UNSHARED):
            threading.Event().wait(0.02)
