"""A member of a chaos run: sums in rounds, on a thread of its own, whatever happens to the others.

Each gives a vector of zeros with a one at its own number, so that a sum says of whom it is made. A round is
an average, by which newcomers come in, an exact sum, and now and then a secure sum. After an error all begin
with a new round.
"""

from __future__ import annotations

import threading
import traceback
from typing import Any

import numpy as np

import duetlink
from duetlink.errors import DuetError
from duetlink.groups.api.group import Group

MOST = 16  # members of one group in its life: its code is for 15 who join
CALL_S = 120.0  # longer than a loss takes to be known


class Side:
    def __init__(self, number: int, code: str | None, signaling: str) -> None:
        self.group: Group = duetlink.group(code, name=f"member {number}", signaling=signaling)
        self.code = self.group.code
        self._number = number
        self._rounds = 0
        self._sums = 0
        self._wrong: list[str] = []
        self._made_of: dict[int, list[int]] = {}  # the members that gave to a sum, by epoch
        self._latest: list[int] = []
        self._error = ""
        self._stops = threading.Event()
        self._thread = threading.Thread(target=self._work, name="rounds", daemon=True)

    def begin(self) -> None:
        """Go on by itself. Whoever opened the group waits until somebody is there."""
        self._thread.start()

    def told(self) -> dict[str, Any]:
        """What it has done, and what it last knew: its numbers of epochs as texts, for JSON."""
        return {
            "sums": self._sums,
            "wrong": self._wrong,
            "made of": {str(epoch): made_of for epoch, made_of in self._made_of.items()},
            "latest": self._latest,
            "error": self._error,
            "state": self.group.state,
        }

    def close(self) -> None:
        self._stops.set()
        self.group.close()
        self._thread.join(CALL_S)

    def _work(self) -> None:
        while not self._stops.is_set():
            try:
                self._round()
                self._error = ""
            except DuetError as error:
                self._error = f"{type(error).__name__}: {error}"
                self._latest = []
                self._stops.wait(0.1)  # an error that comes at once must not keep the machine busy
            except Exception:
                self._wrong.append(traceback.format_exc())
                return

    def _round(self) -> None:
        group, mine = self.group, np.zeros(MOST + 1, np.int64)
        mine[self._number], mine[MOST] = 1, self._rounds
        mean = group.average(mine[:MOST].astype(float), timeout_s=CALL_S)
        count = np.count_nonzero(mean)
        self._check(bool(count) and np.allclose(mean[mean != 0], 1 / count, rtol=1e-12), "an average", mean)
        epoch = group.epoch
        total = group.all_reduce(mine, timeout_s=CALL_S)
        self._take(total, epoch, "a sum")
        # what decides is in the sum, so that all decide the same
        if total[MOST] % 8 == 0 and np.count_nonzero(total[:MOST]) >= 3:
            epoch = group.epoch
            self._take(group.all_reduce(mine, secure=True, timeout_s=CALL_S), epoch, "a secure sum")
        self._rounds += 1

    def _take(self, total: np.ndarray, epoch: int, what: str) -> None:
        made_of = [int(number) for number in np.flatnonzero(total[:MOST])]
        self._check(self._number in made_of and total[:MOST].max() == 1, what, total)
        if self.group.epoch == epoch:  # else nobody can tell which one it was made in
            known = self._made_of.setdefault(epoch, made_of)
            self._check(
                known == made_of, f"{what}, made of other members than {known} in epoch {epoch},", total
            )
        self._latest = made_of

    def _check(self, is_right: bool, what: str, found: np.ndarray) -> None:
        self._sums += 1
        if not is_right:
            self._wrong.append(f"{what} is wrong: {found[found != 0]} at {np.flatnonzero(found)}")
