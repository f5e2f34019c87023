"""Who has gone from a group, when and how, as far as this member knows: for `group.status()`.

That a member is gone is agreed on by epochs. How it went is known from its link alone, which may tell it
before or after: a goodbye carries the words of whoever left, a link that breaks carries none.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from duetlink.base.runtime.at_exit import KERNEL_ENDED
from duetlink.base.wire.text import harmless
from duetlink.errors import LinkClosed, PeerLost
from duetlink.groups.lifecycle.status import Going, GoneStatus
from duetlink.groups.membership.messages import Epoch

LEFT = "it left the group"  # what a member says to the others where the person gave no reason
_KEPT = 16  # as many as a group has members


class Departures:
    """Belongs to the loop thread; other threads may read `latest`."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.latest: tuple[GoneStatus, ...] = ()  # the newest last
        self._seats: tuple[int, ...] = ()  # of those
        self._ends: dict[int, LinkClosed] = {}  # how links have ended, the oldest first
        self._put_out: set[int] = set()
        self._clock = clock

    def link_ended(self, seat: int, error: LinkClosed) -> None:
        """The link to this seat has ended, and does not come back."""
        self._ends.setdefault(seat, error)
        while len(self._ends) > _KEPT:
            self._ends.pop(next(iter(self._ends)))
        if seat in self._seats:
            place = self._seats.index(seat)
            now = self.latest[place]
            how, why = self._how(seat, leaves=now.how == "left")
            self.latest = (*self.latest[:place], replace(now, how=how, why=why), *self.latest[place + 1 :])

    def put_out(self, seat: int, error: Exception) -> None:
        """This member has ended its link to that seat, which broke the protocol."""
        self._put_out.add(seat)
        self.link_ended(seat, LinkClosed(str(error)))

    def gone(self, seat: int, name: str, epoch: Epoch, *, leaves: bool) -> None:
        """This seat is no member after that epoch; `leaves` if it has said so. The first word counts."""
        if seat in self._seats:
            return
        how, why = self._how(seat, leaves=leaves)
        rank = epoch.members.index(seat) if seat in epoch.members else None
        one = GoneStatus(rank, harmless(name), epoch.number, self._clock(), how, why)
        self.latest = (*self.latest, one)[-_KEPT:]
        self._seats = (*self._seats, seat)[-_KEPT:]

    def _how(self, seat: int, *, leaves: bool) -> tuple[Going, str]:
        error = self._ends.get(seat)
        why = "" if error is None else harmless(str(error))
        if seat in self._put_out:
            return "put out", why
        if error is None:
            return ("left" if leaves else "lost by others"), ""
        if isinstance(error, PeerLost):
            return ("left" if leaves else "silent"), why
        if error.reason == KERNEL_ENDED:
            return "notebook closed", ""
        return "left", "" if error.reason == LEFT else error.reason
