"""A record of the members that have gone from a group, when and how, for `group.status()`.

Epochs say that a member is gone. How it went is known from this member's own link to it, sooner or later: a
goodbye message carries the reason that the member gave, a link that breaks carries none.
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

LEFT = "it left the group"  # the reason that a member sends if its user gave none
_KEPT = 16  # records; a group has at most 16 members


class Departures:
    """The last 16 members that have gone. Used on the loop thread; other threads may read `latest`."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.latest: tuple[GoneStatus, ...] = ()  # the newest last
        self._seats: tuple[int, ...] = ()  # the seats of the entries in `latest`
        self._ends: dict[int, LinkClosed] = {}  # by seat, how its link has ended; the oldest first
        self._put_out: set[int] = set()
        self._clock = clock

    def link_ended(self, seat: int, error: LinkClosed) -> None:
        """Note that the link to this seat has ended for good, and refine the record of its departure."""
        self._ends.setdefault(seat, error)
        while len(self._ends) > _KEPT:
            self._ends.pop(next(iter(self._ends)))
        if seat in self._seats:
            place = self._seats.index(seat)
            now = self.latest[place]
            how, why = self._how(seat, leaves=now.how == "left")
            self.latest = (*self.latest[:place], replace(now, how=how, why=why), *self.latest[place + 1 :])

    def put_out(self, seat: int, error: Exception) -> None:
        """Note that this member has closed its link to that seat, because it broke the protocol."""
        self._put_out.add(seat)
        self.link_ended(seat, LinkClosed(str(error)))

    def gone(self, seat: int, name: str, epoch: Epoch, *, leaves: bool) -> None:
        """Record that this seat is not in the group after `epoch`; `leaves` if it announced that.

        Later calls for the same seat change nothing.
        """
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
