"""Keeps intermediate results of the peer's programs, so that its next programs need not compute them again.

A notebook asks for ten aggregates of one filtered frame, one by one: ten programs that begin with the same
steps. The first is run as a whole. The second begins with the same steps, which took long, so its room
computes these first and their results are kept in sealed memory (*frozen*); then it goes on. The other eight
begin with the frozen values.

A training whose loss is asked for now and then is another case: each program is the previous one with more
steps at its end. When this pattern is seen, the room keeps all its objects, stays alive (*warm*), and
continues with the next program.

What is kept depends on the peer's programs and their run times. The peer can observe it in response times
only.
"""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from duetlink.compute.operations.canonical import Program
from duetlink.compute.operations.prefixes import Assets, Beginning, Prefix, divided, prefixes
from duetlink.compute.worker.kernel.process import Room
from duetlink.compute.worker.protocol.groups import State
from duetlink.compute.worker.protocol.limits import Limits

COSTLY_S = 0.05  # a shorter run is not worth freezing
WORTH_S = 0.01  # nor are shorter first steps, if the other steps open just as many assets
IDLE_S = 600.0  # an unused frozen value is dropped after this time
MOST_FROZEN = 16
WARM_S = 60.0  # a warm room waits this long for a program that continues
_MOST_EARLIER = 8
_MOST_SEEN = 20_000  # digests of first steps of costly programs, 32 bytes each


@dataclass(slots=True)
class Frozen:
    """The results of the first steps of a program, in sealed memory."""

    fd: int
    size_bytes: int
    state: State
    assets: Assets  # the assets that it was made of
    timer: asyncio.TimerHandle | None = None


class Plan(NamedTuple):
    """The way to run one program: from its start, from frozen values, or in a warm room."""

    beginnings: Sequence[Prefix] = ()
    frozen_steps: int = 0  # the number of first steps whose results are frozen
    frozen: Frozen | None = None  # their results
    fd: int = -1  # a duplicate descriptor for this run: the frozen value may be dropped meanwhile
    needed: Assets | None = None  # the assets that the remaining steps use; None: all
    freeze: Prefix | None = None  # first steps that another program has too: freeze their results
    inside: Assets = frozenset()  # the assets that these steps use
    again: Assets = frozenset()  # those of them that the remaining steps use as well
    least_s: float = 0.0  # freeze only if these steps take at least this long
    continues: bool = False  # it continues an earlier program, so its room stays for the next

    def close(self) -> None:
        """Close the descriptor of the frozen memory, after the run."""
        if self.fd >= 0:
            os.close(self.fd)


@dataclass(slots=True)
class Warm:
    """A room that has run exactly the steps of one program, and still holds their results."""

    room: Room
    ran: Beginning
    assets: Assets  # the assets that it has opened
    timer: asyncio.TimerHandle


class Reuse:
    """The frozen values and the warm room of one peer. Used on the loop thread only."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.uses = 0  # number of runs that used a frozen value or a warm room
        # by digest, least recently used first
        self._frozen: OrderedDict[bytes, Frozen] = OrderedDict()
        self._seen: OrderedDict[bytes, None] = OrderedDict()
        self._earlier: deque[Beginning] = deque(maxlen=_MOST_EARLIER)
        self._warm: Warm | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @property
    def held_bytes(self) -> int:
        """The size of all frozen values."""
        return sum(frozen.size_bytes for frozen in self._frozen.values())

    async def plan(self, program: Program) -> Plan:
        """Decide how to run a program. The caller closes the plan."""
        if not self.most_bytes:
            return Plan()
        beginnings = await asyncio.to_thread(prefixes, program)
        earlier = max([before.steps for before in self._earlier if before.begins(program)], default=0)
        continued = Plan(beginnings, continues=True)
        if self._warm is not None and self._warm.ran.begins(program):
            return continued
        plan = Plan(beginnings)
        for prefix in reversed(beginnings):
            if prefix.steps < earlier:
                return continued
            frozen = self._frozen.get(prefix.digest)
            if frozen is not None:
                self._frozen.move_to_end(prefix.digest)
                self._restart_timer(prefix.digest, frozen)
                self.uses += 1
                _, needed = divided(program, prefix.steps)
                least_s = WORTH_S if plan.needed == needed else 0.0
                fd = os.dup(frozen.fd)
                return plan._replace(
                    frozen_steps=prefix.steps, frozen=frozen, fd=fd, needed=needed, least_s=least_s
                )
            if plan.freeze is None and prefix.digest in self._seen:
                inside, after = divided(program, prefix.steps)
                plan = plan._replace(freeze=prefix, inside=inside, again=inside & after, needed=after)
                earlier = 0
        if earlier:
            return continued
        least_s = WORTH_S if plan.needed == frozenset(program.assets) else 0.0
        return plan._replace(needed=None, least_s=least_s)

    def ran(self, program: Program, plan: Plan, seconds: float) -> None:
        """Record that a run has ended, whether it succeeded or not."""
        if seconds < COSTLY_S or not self.most_bytes:
            return
        self._earlier.append(Beginning.of(program))
        for prefix in plan.beginnings:
            if prefix.steps > plan.frozen_steps:
                self._seen[prefix.digest] = None
                self._seen.move_to_end(prefix.digest)
        while len(self._seen) > _MOST_SEEN:
            self._seen.popitem(last=False)

    def keep(self, prefix: Prefix, frozen: Frozen) -> None:
        """Take ownership of a frozen value, and drop the least recently used ones beyond the limits."""
        self._drop(prefix.digest)
        self._frozen[prefix.digest] = frozen
        self._restart_timer(prefix.digest, frozen)
        while len(self._frozen) > MOST_FROZEN or self.held_bytes > self.most_bytes:
            self._drop(next(iter(self._frozen)))

    def retire(self, asset: tuple[str, int]) -> None:
        """Drop all that was made from an asset that is no longer shared."""
        for digest in [digest for digest, frozen in self._frozen.items() if asset in frozen.assets]:
            self._drop(digest)
        if self._warm is not None and asset in self._warm.assets:
            self._close_warm()

    async def close(self) -> None:
        """Drop everything; the warm room is gone when this returns."""
        self._is_closed = True
        for digest in list(self._frozen):
            self._drop(digest)
        self._close_warm()
        await asyncio.gather(*self._ending)

    # -- the warm room ---------------------------------------------------------------------------------------

    def take_room(self, program: Program, limits: Limits) -> tuple[Room, Assets] | None:
        """Return a warm room that has run the first steps of this program and nothing else, with its assets.
        The caller owns the room.
        """
        warm = self._warm
        if warm is None or warm.room.ended.done() or warm.room.limits != limits:
            return None
        if not warm.ran.begins(program):
            return None
        self._warm = None
        warm.timer.cancel()
        self.uses += 1
        return warm.room, warm.assets

    def keep_room(self, room: Room, program: Program) -> None:
        """Take ownership of a room that has run a program without an error."""
        self._close_warm()
        timer = asyncio.get_running_loop().call_later(WARM_S, self._close_warm)
        self._warm = Warm(room, Beginning.of(program), frozenset(program.assets), timer)
        if self._is_closed:
            self._close_warm()

    def _close_warm(self) -> None:
        warm, self._warm = self._warm, None
        if warm is not None:
            warm.timer.cancel()
            ending = asyncio.ensure_future(warm.room.close())
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)

    def _restart_timer(self, digest: bytes, frozen: Frozen) -> None:
        if frozen.timer is not None:
            frozen.timer.cancel()
        frozen.timer = asyncio.get_running_loop().call_later(IDLE_S, self._drop, digest)

    def _drop(self, digest: bytes) -> None:
        frozen = self._frozen.pop(digest, None)
        if frozen is not None:
            if frozen.timer is not None:
                frozen.timer.cancel()
            os.close(frozen.fd)
