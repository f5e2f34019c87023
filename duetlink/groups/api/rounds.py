"""Rounds: a sum among the members, again and again, that goes on without those who pause.

Theory. An operation of a group waits for every member. But a notebook that pauses has stopped its own thread
only, and not the loop thread of its kernel. So here the loop threads run the operation: a member whose
notebook has given nothing takes part all the same, gives nothing, and hears what came of it. What a round
needs besides is that all begin it at the same time. Members say by a word that they have something to give;
each begins as soon as all whom it waits for have said so, or a quorum has and a grace window is over. No one
has to agree on that: whoever begins first waits for the others, who have heard the same words. (Quorum and
grace window: Douillard et al., "Decoupled DiLoCo", 2026.)

Each round is one operation. First every member tells the number of the last round that it knows. Whoever is
behind (it is new, or a loss hid the end of a round from it) takes the state of one that is not; so a round
that some have finished when a member was lost counts for all, with what all had given. After a loss all begin
one at once, in which nobody gives: who is behind does not know it, and might wait for a round that is over.

A member that missed a round is not waited for until it gives again, so a long pause costs one grace window.
A process that is frozen takes part in nothing; it is lost when its link has been silent for long enough, and
the others go on as after any loss.
"""

from __future__ import annotations

import asyncio
import secrets
import struct
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

from duetlink.base.reraise import reraise
from duetlink.base.runtime.loop import LoopThread
from duetlink.errors import (
    DuetError,
    GroupError,
    LinkClosed,
    OperationAborted,
    OperationMismatch,
    PeerLost,
    RemoteProtocolError,
    SecureSumFailed,
    SettingError,
)
from duetlink.groups.collectives.collectives import Collectives
from duetlink.groups.lifecycle.exit import Exit
from duetlink.groups.lifecycle.life import GroupLife
from duetlink.groups.secure.participants import Participants

TOPIC = "rounds"
FORM_BYTES = 32

_NOT_BEGUN = -1
_ID_BYTES = 8
_WORD = struct.Struct(f"<{_ID_BYTES}sqB")  # whose rounds, the last one it knows, how it stands
_HEAD = struct.Struct(f"<{_ID_BYTES}sqB{FORM_BYTES}s")  # the same, and the digest of what all have to share
# in succession; who is interrupted more often has something wrong that repeating will not mend
_MOST_ABORTS = 3


class _Stand(IntEnum):
    """How a member stands in the round that is next."""

    HERE = 0  # it takes part, and gives nothing
    READY = 1  # it gives
    DONE = 2  # in no later round either
    IDLE = 3  # it does other things


Note = Callable[[Any], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Meeting:
    """Who meets in a round, and how."""

    collectives: Collectives
    party: Participants
    gives: bool  # whether this member gives
    note: Note  # to be awaited with whatever is about to be sent
    call: str


class Part(Protocol):
    """What goes from round to round at one member. Its methods are called one at a time; those that are no
    coroutines off the loop thread.
    """

    @property
    def form(self) -> bytes:
        """A digest of what has to be the same at all members, 32 bytes."""

    def state(self) -> Any:
        """What a member needs that knows nothing yet: a dict of arrays."""

    def load(self, state: Any) -> None:
        """Take the state of another member. Raises RemoteProtocolError."""

    @property
    def gave(self) -> bool:
        """Whether what the last exchange brought together has this member's gift in it."""

    async def exchange(self, meeting: Meeting) -> Any:
        """Bring together what the givers have. All members call it; one that does not give takes part with
        nothing. May be called again after a failure.
        """

    def advance(self, found: Any) -> frozenset[int]:
        """Go on to the next state. Returns the ranks whose gift was none: the same at all members."""


@dataclass(frozen=True, slots=True)
class Round:
    """One round that has ended."""

    number: int  # from 1 on
    gave: tuple[str, ...]  # names of those whose gift is in it
    refused: tuple[str, ...]  # names of those who gave what cannot be used
    size: int  # of the group
    gives: bool  # whether this member's gift is in it
    took_s: float  # the operation, without the wait for others to be ready


@dataclass(frozen=True, slots=True)
class _Head:
    whose: bytes
    number: int
    standing: int
    form: bytes

    @classmethod
    def parse(cls, data: bytes) -> _Head:
        if len(data) != _HEAD.size:
            raise RemoteProtocolError(f"a member began a round with {len(data)} bytes, not {_HEAD.size}")
        head = cls(*_HEAD.unpack(data))
        if head.number < _NOT_BEGUN or head.standing not in tuple(_Stand):
            raise RemoteProtocolError("a member began a round in a way that there is none")
        return head


class Rounds:
    """The rounds of one group at one member. `group.rounds` makes one. Methods block, from the user's thread;
    while they are open, the group's operations are theirs.
    """

    def __init__(
        self,
        life: GroupLife,
        way_out: Exit,
        thread: LoopThread,
        note: Callable[[str, Any], Awaitable[None]],
        part: Part,
        *,
        quorum: int | None,
        grace_s: float,
    ) -> None:
        if quorum is not None and quorum < 1:
            raise SettingError(f"quorum is {quorum}: at least one member has to give something")
        if not grace_s >= 0.0:
            raise SettingError(f"grace_s is {grace_s!r}: it is 0 or more seconds")
        self._life, self._exit, self._thread, self._note, self._part = life, way_out, thread, note, part
        self._wanted_quorum = quorum
        self._grace_s = grace_s
        self._whose = bytes(_ID_BYTES)
        self._number = _NOT_BEGUN
        self._gives = False  # there is something that no round has taken
        self._is_in = False  # and it has gone into a round whose end is not known here
        self._is_done = False
        self._is_open = False  # has what the others have, as of the end of the round that it came to
        self._absent: frozenset[int] = frozenset()  # seats that missed the last round
        self._members: frozenset[int] = frozenset()  # seats of the epoch that was looked at last
        self._is_even = False  # no loss may have hidden the end of a round from anybody
        self._over = False
        self._error: BaseException | None = None
        self.past: list[Round] = []

    @property
    def number(self) -> int:
        """How many rounds have ended, as far as is known here."""
        return max(self._number, 0)

    @property
    def gives(self) -> bool:
        """Whether something was given that no round has taken yet."""
        return self._gives

    @property
    def over(self) -> bool:
        """Whether there are no more rounds: all members are done, or it failed."""
        return self._over

    # -- from the user's thread ------------------------------------------------------------------------------

    def open(self) -> None:
        """Begin, and return when every member has and all have the state of the lowest rank; or, for one that
        comes later, the state of the others after the round that it came to.

        Raises:
            SettingError: the quorum is larger than the group.
            OperationMismatch: the members do not share what they have to.
            GroupError, LinkClosed: as any operation.
        """

        async def begin() -> None:
            if not self._is_open:  # else nothing has begun, or an interrupt has ended it before it did
                self._error, self._over = None, False
            task = self._life.serve(self._serve())
            try:
                await self._until(lambda: self._is_open)
            except asyncio.CancelledError:
                task.cancel()
                await asyncio.wait([task])
                raise

        self._thread.run(begin())

    def give(self) -> None:
        """What the part holds goes into the next round. Returns when that has ended. If interrupted, the gift
        stays given.

        Raises:
            DuetError: there are no more rounds, as `open` says.
        """

        async def give() -> None:
            if not self._over:
                self._gives = True
                self._life.stir()
            await self._until(lambda: not self._gives)

        self._thread.run(give())

    def finish(self) -> None:
        """This member gives nothing any more. Returns when that is so for all; it has the same state then.

        Raises:
            DuetError: it failed before that, as `open` says.
        """

        async def finish() -> None:
            self._is_done = True
            self._life.stir()
            await self._until(lambda: False)

        self._thread.run(finish())

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            if self._error is not None:
                raise _told(self._error)
            if self._over:
                return
            await self._life.wait_change()

    # -- on the loop thread ----------------------------------------------------------------------------------

    async def _serve(self) -> None:
        try:
            await self._run()
        except asyncio.CancelledError:
            self._error = LinkClosed("the rounds were interrupted before they began")
            raise
        except (LinkClosed, GroupError, SettingError) as error:
            self._error = error  # all members have it
        except Exception as error:
            # the others would wait for this member for ever
            self._error = error
            why = f"it cannot follow the others ({type(error).__name__})"
            # not awaited: closing waits for what the group serves, which is this
            self._leaving = asyncio.ensure_future(self._exit.close(why))
        finally:
            self._over = True
            self._life.stir()

    async def _run(self) -> None:
        aborts = 0
        self._life.links.say(TOPIC, self._word())
        while True:
            if self._number > _NOT_BEGUN:
                if not self._is_open:
                    self._is_open = True
                    self._life.stir()
                await self._wait()
            try:
                if self._life.grows:
                    is_end = await self._life.points.operate(self._round, TOPIC, self._wants_in)
                else:
                    is_end = await self._life.running.operate(self._round)
                if is_end:
                    return
                aborts = 0
            except PeerLost:
                self._life.check_open()
            except (OperationAborted, SecureSumFailed):
                self._life.check_open()
                aborts += 1
                if aborts > _MOST_ABORTS:
                    raise

    def _wants_in(self, seat: int) -> bool:
        """Whether somebody who waits for the next epoch has come to these rounds as well."""
        return bool(self._life.links.heard(seat, TOPIC))

    async def _wait(self) -> None:
        """Until the next round is to begin."""
        life = self._life
        told = b""
        quorum_since: float | None = None
        while True:
            life.check_open()
            assert life.standing is not None
            if told != (word := self._word()):
                life.links.say(TOPIC, word)
                told = word
            me, members = life.standing.me, self._look()
            if not self._is_even:
                return
            stands = {seat: self._stands(seat) for seat in members - {me}} | {me: word[-1]}
            ready = {seat for seat, standing in stands.items() if standing == _Stand.READY}
            rest = {seat for seat, standing in stands.items() if standing != _Stand.DONE}
            quorum = min(self._quorum(len(members)), len(rest))
            if not rest or (len(ready) >= quorum and rest <= ready | self._absent):
                return
            left_s = None
            if len(ready) >= quorum:
                now = time.monotonic()
                quorum_since = now if quorum_since is None else quorum_since
                left_s = quorum_since + self._grace_s - now
                if left_s <= 0.0:
                    return
            else:
                quorum_since = None
            await life.wait_change(left_s)

    def _look(self) -> frozenset[int]:
        """The seats of this epoch."""
        assert self._life.standing is not None
        members = frozenset(self._life.standing.epoch.members)
        self._is_even &= self._members <= members
        self._members = members
        return members

    def _quorum(self, size: int) -> int:
        return size // 2 + 1 if self._wanted_quorum is None else self._wanted_quorum

    def _word(self) -> bytes:
        return _WORD.pack(self._whose, self._number, self._standing())

    def _standing(self) -> _Stand:
        if self._number == _NOT_BEGUN:
            return _Stand.HERE
        return _Stand.READY if self._gives else _Stand.DONE if self._is_done else _Stand.IDLE

    def _stands(self, seat: int) -> _Stand:
        """What that member has said of the round that is next; idle if nothing."""
        word = self._life.links.heard(seat, TOPIC)
        if len(word) != _WORD.size:
            return _Stand.IDLE
        whose, number, standing = _WORD.unpack(word)
        if whose != self._whose:
            return _Stand.IDLE
        # a word of an earlier round that says "done" holds for all later ones
        known = standing in tuple(_Stand) and (number >= self._number or standing == _Stand.DONE)
        return _Stand(standing) if known else _Stand.IDLE

    async def _round(self, collectives: Collectives) -> bool:
        """One round as one operation, which may be run again in another epoch. Whether all are done."""
        began = time.monotonic()
        call = f"round {self._number + 1}"
        part, rank = self._part, collectives.rank
        assert self._life.standing is not None
        seats = self._life.standing.epoch.members
        self._look()
        standing = self._standing()
        if standing == _Stand.READY and not self._is_even:
            standing = _Stand.HERE
        mine = _Head(self._whose, self._number, standing, part.form)
        if mine.number == _NOT_BEGUN and rank == 0:
            mine = _Head(secrets.token_bytes(_ID_BYTES), mine.number, mine.standing, mine.form)
        told = await collectives.all_gather_bytes(
            _HEAD.pack(mine.whose, mine.number, mine.standing, mine.form), call=call
        )
        heads = [_Head.parse(data) for data in told]
        latest = max(head.number for head in heads)
        source = next(rank for rank, head in enumerate(heads) if head.number == latest)
        self._check(heads, source, seats, latest)
        if latest == _NOT_BEGUN or any(head.number < latest for head in heads):
            await self._catch_up(collectives, heads, source, call)
        givers = [
            rank for rank, head in enumerate(heads) if head.number == latest and head.standing == _Stand.READY
        ]
        if givers:
            self._is_in = rank in givers

            def note(sent: Any) -> Awaitable[None]:
                return self._note(call, sent)

            party = Participants(*self._life.roll())
            found = await part.exchange(Meeting(collectives, party, rank in givers, note, call))
            refused = await asyncio.to_thread(part.advance, found)
            names = {each: self._life.roster.entries[seat].name for each, seat in enumerate(seats)}
            self._number += 1
            self.past.append(
                Round(
                    self._number,
                    tuple(names[each] for each in givers if each not in refused),
                    tuple(names[each] for each in givers if each in refused),
                    len(seats),
                    part.gave and rank not in refused,
                    time.monotonic() - began,
                )
            )
            if part.gave:
                self._gives = self._is_in = False
            self._absent = frozenset(
                seats[each]
                for each, head in enumerate(heads)
                if each not in givers and head.number == latest and head.standing == _Stand.IDLE
            )
        self._is_even = True
        self._life.stir()
        return all(head.standing == _Stand.DONE for head in heads)

    def _check(self, heads: list[_Head], source: int, seats: tuple[int, ...], latest: int) -> None:
        """That all can go on together. What it raises, it raises at every member."""
        entries = self._life.roster.entries
        different = [
            f"rank {rank} ({entries[seats[rank]].name})"
            for rank, head in enumerate(heads)
            if head.form != heads[source].form
        ]
        if different:
            named = f"rank {source} ({entries[seats[source]].name})"
            raise OperationMismatch(
                f"{', '.join(different)} and {named} go into rounds with different models or settings: "
                "names, shapes and dtypes of parameters, and all settings but the weight, have to be the same"
            )
        if latest == _NOT_BEGUN and self._quorum(len(heads)) > len(heads):
            raise SettingError(f"quorum is {self._wanted_quorum} of {len(heads)} members: no round could end")
        if latest > _NOT_BEGUN and any(
            head.number > _NOT_BEGUN and head.whose != heads[source].whose for head in heads
        ):
            raise OperationMismatch("the members are in rounds that did not begin together")

    async def _catch_up(self, collectives: Collectives, heads: list[_Head], source: int, call: str) -> None:
        """Whoever is behind takes the state of `source`. At the very beginning that is the lowest rank's."""
        latest, part = heads[source].number, self._part
        if collectives.rank == source:
            state = await asyncio.to_thread(part.state)
            await self._note(f"{call}, state", state)
            await collectives.broadcast(state, source, call=call)
        else:
            state = await collectives.broadcast(None, source, call=call)
            if latest == _NOT_BEGUN or self._number < latest:
                await asyncio.to_thread(part.load, state)
                if self._is_in:  # the others have finished the round that it went into
                    self._gives = self._is_in = False
        self._number = max(latest, 0)
        self._whose = heads[source].whose


def _told(error: BaseException) -> DuetError:
    """What each who waits is told of it."""
    if isinstance(error, DuetError):
        return reraise(error)
    return GroupError(f"this member cannot follow the rounds ({type(error).__name__}: {error}); it has left")
