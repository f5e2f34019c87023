"""Rounds: repeated sums among the members that go on without those whose notebook pauses.

Theory. An operation of a group waits for every member. A notebook that pauses has stopped only its own
thread, not the loop thread of its kernel. So rounds run on the loop threads: a member whose notebook has
given nothing still takes part in the operation, contributes nothing, and receives the result.

All members have to begin a round at the same time. A status message announces that a member is ready to give
something. A member begins as soon as all members that it waits for are ready, or as soon as a quorum is ready
and a grace window has passed. This needs no agreement: the member that begins first waits in the operation
for the others, which have received the same messages. (Quorum and grace window: Douillard et al., "Decoupled
DiLoCo", 2026.)

Each round is one operation. First every member sends the number of the last round that it knows. A member
that is behind takes over the state of one that is not; it is new, or a loss hid the end of a round from it.
So a round that some members had finished when another one was lost counts for all, with all that was given.
After a loss, all members begin a round at once, in which none gives anything: a member that is behind does
not know it, and might otherwise wait for a round that is over.

The others do not wait for a member that missed a round until it gives again, so a long pause costs one grace
window. A frozen process takes no part; it is lost when its link has been silent for long enough, and the
others go on as after any loss.
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
_STATUS = struct.Struct(f"<{_ID_BYTES}sqB")  # id of the rounds, last known round, `_RoundStatus`
_HEAD = struct.Struct(f"<{_ID_BYTES}sqB{FORM_BYTES}s")  # the same, and the digest `Part.form`
# Aborted rounds in succession after which repeating will not help.
_MOST_ABORTS = 3


class _RoundStatus(IntEnum):
    """A member's announced status for the next round."""

    HERE = 0  # it takes part, and gives nothing
    READY = 1  # it gives something
    DONE = 2  # it gives nothing in this round or any later one
    IDLE = 3  # its notebook does other things


Note = Callable[[Any], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Meeting:
    """The members of one round, and the operations over which a `Part` exchanges values with them."""

    collectives: Collectives
    party: Participants
    gives: bool  # this member gives something in this round
    note: Note  # records a value in the audit log; to be awaited before the value is sent
    call: str  # name of the round in error messages


class Part(Protocol):
    """The state that goes from round to round at one member, and what a round does with it.

    Methods are called one at a time: coroutines on the loop thread, the others on another thread.
    """

    @property
    def form(self) -> bytes:
        """A digest of everything that has to be equal at all members, 32 bytes."""

    def state(self) -> Any:
        """Return the arrays that a new member needs to take part, by name."""

    def load(self, state: Any) -> None:
        """Take over the `state()` of another member. Raises RemoteProtocolError."""

    @property
    def gave(self) -> bool:
        """True if the last exchange used what this member gave."""

    async def exchange(self, meeting: Meeting) -> Any:
        """Combine the contributions of the members that give something. All members call it.

        May be called again after a failure.
        """

    def advance(self, found: Any) -> frozenset[int]:
        """Go on to the next state, from the result of `exchange`.

        Returns the ranks whose contributions could not be used, which are the same at all members.
        """


@dataclass(frozen=True, slots=True)
class Round:
    """One round that has ended."""

    number: int  # 1 for the first round
    gave: tuple[str, ...]  # names of the members whose contributions were used
    refused: tuple[str, ...]  # names of the members whose contributions could not be used
    size: int  # number of members in the group
    gives: bool  # this member's contribution was used
    took_s: float  # seconds of the operation, without the wait until members were ready


@dataclass(frozen=True, slots=True)
class _Head:
    rounds_id: bytes
    number: int
    status: int
    form: bytes

    @classmethod
    def parse(cls, data: bytes) -> _Head:
        if len(data) != _HEAD.size:
            raise RemoteProtocolError(f"a member began a round with {len(data)} bytes, not {_HEAD.size}")
        head = cls(*_HEAD.unpack(data))
        if head.number < _NOT_BEGUN or head.status not in tuple(_RoundStatus):
            raise RemoteProtocolError("a member began a round with an invalid number or status")
        return head


class Rounds:
    """The rounds of one group at one member; `group.rounds` makes them.

    Methods block the user's thread. While rounds are open, no other operations of the group may be called.
    """

    def __init__(
        self,
        life: GroupLife,
        member_exit: Exit,
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
        self._life, self._exit, self._thread, self._note, self._part = life, member_exit, thread, note, part
        self._wanted_quorum = quorum
        self._grace_s = grace_s
        self._rounds_id = bytes(_ID_BYTES)
        self._number = _NOT_BEGUN
        self._gives = False  # the user has given something that no round has used yet
        self._is_in = False  # and it went into a round whose end is not known here
        self._is_done = False  # the user has called `finish`
        self._is_open = False  # this member has the others' state as of its first round
        self._absent: frozenset[int] = frozenset()  # seats that missed the last round
        self._members: frozenset[int] = frozenset()  # seats of the epoch that `_look` has seen last
        self._is_even = False  # no loss since the last round, so no member can be behind
        self._over = False
        self._error: BaseException | None = None
        self.past: list[Round] = []

    @property
    def number(self) -> int:
        """The number of rounds that are known here to have ended."""
        return max(self._number, 0)

    @property
    def gives(self) -> bool:
        """True while no round has used what the user has given."""
        return self._gives

    @property
    def over(self) -> bool:
        """True if there are no more rounds: all members have finished, or the rounds failed."""
        return self._over

    # -- from the user's thread ------------------------------------------------------------------------------

    def open(self) -> None:
        """Begin the rounds, and return when this member has the common state.

        That is the state of the lowest rank, once every member has begun. A member that joins later gets the
        state of the others after the round in which it came.

        Raises:
            SettingError: the quorum is larger than the group.
            OperationMismatch: `Part.form` differs among the members.
            GroupError, LinkClosed: as any operation.
        """

        async def begin() -> None:
            if not self._is_open:  # nothing has begun, or an interrupt ended an earlier call of this
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
        """Contribute the part's state to the next round, and return when a round has used it.

        If this is interrupted, the contribution still goes into the next round.

        Raises:
            DuetError: the rounds have failed; the error is one of those of `open`.
        """

        async def give() -> None:
            if not self._over:
                self._gives = True
                self._life.notify_change()
            await self._until(lambda: not self._gives)

        self._thread.run(give())

    def finish(self) -> None:
        """Give nothing any more, and return when all members have called this and have the same state.

        Raises:
            DuetError: the rounds failed before that; the error is one of those of `open`.
        """

        async def finish() -> None:
            self._is_done = True
            self._life.notify_change()
            await self._until(lambda: False)

        self._thread.run(finish())

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            if self._error is not None:
                raise _raised(self._error)
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
            self._error = error  # raised at all members
        except Exception as error:
            # this member leaves the group, since the others would wait for it for ever
            self._error = error
            why = f"it cannot follow the others ({type(error).__name__})"
            # not awaited: closing waits for the background tasks of the group, and this is one
            self._leaving = asyncio.ensure_future(self._exit.close(why))
        finally:
            self._over = True
            self._life.notify_change()

    async def _run(self) -> None:
        aborts = 0
        self._life.links.send_status_to_all(TOPIC, self._status_message())
        while True:
            if self._number > _NOT_BEGUN:
                if not self._is_open:
                    self._is_open = True
                    self._life.notify_change()
                await self._wait()
            try:
                if self._life.grows:
                    is_end = await self._life.join_points.operate(self._round, TOPIC, self._wants_in)
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
        """Return True if a newcomer has opened its rounds too."""
        return bool(self._life.links.latest_status(seat, TOPIC))

    async def _wait(self) -> None:
        life = self._life
        sent = b""
        quorum_since: float | None = None
        while True:
            life.check_open()
            assert life.member_state is not None
            if sent != (message := self._status_message()):
                life.links.send_status_to_all(TOPIC, message)
                sent = message
            me, members = life.member_state.me, self._look()
            if not self._is_even:
                return
            statuses = {seat: self._status_of(seat) for seat in members - {me}} | {me: message[-1]}
            ready = {seat for seat, status in statuses.items() if status == _RoundStatus.READY}
            rest = {seat for seat, status in statuses.items() if status != _RoundStatus.DONE}
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
        """Return the seats of this epoch, and note if any have gone since the last call."""
        assert self._life.member_state is not None
        members = frozenset(self._life.member_state.epoch.members)
        self._is_even &= self._members <= members
        self._members = members
        return members

    def _quorum(self, size: int) -> int:
        return size // 2 + 1 if self._wanted_quorum is None else self._wanted_quorum

    def _status_message(self) -> bytes:
        return _STATUS.pack(self._rounds_id, self._number, self._own_status())

    def _own_status(self) -> _RoundStatus:
        if self._number == _NOT_BEGUN:
            return _RoundStatus.HERE
        return (
            _RoundStatus.READY if self._gives else _RoundStatus.DONE if self._is_done else _RoundStatus.IDLE
        )

    def _status_of(self, seat: int) -> _RoundStatus:
        """Return the member's announced status for the next round; IDLE if there is none."""
        message = self._life.links.latest_status(seat, TOPIC)
        if len(message) != _STATUS.size:
            return _RoundStatus.IDLE
        rounds_id, number, status = _STATUS.unpack(message)
        if rounds_id != self._rounds_id:
            return _RoundStatus.IDLE
        # DONE stays valid in all later rounds
        known = status in tuple(_RoundStatus) and (number >= self._number or status == _RoundStatus.DONE)
        return _RoundStatus(status) if known else _RoundStatus.IDLE

    async def _round(self, collectives: Collectives) -> bool:
        """Run one round; returns True if all members are done. It may be repeated in another epoch."""
        began = time.monotonic()
        call = f"round {self._number + 1}"
        part, rank = self._part, collectives.rank
        assert self._life.member_state is not None
        seats = self._life.member_state.epoch.members
        self._look()
        status = self._own_status()
        if status == _RoundStatus.READY and not self._is_even:
            status = _RoundStatus.HERE
        mine = _Head(self._rounds_id, self._number, status, part.form)
        if mine.number == _NOT_BEGUN and rank == 0:
            mine = _Head(secrets.token_bytes(_ID_BYTES), mine.number, mine.status, mine.form)
        received = await collectives.all_gather_bytes(
            _HEAD.pack(mine.rounds_id, mine.number, mine.status, mine.form), call=call
        )
        heads = [_Head.parse(data) for data in received]
        latest = max(head.number for head in heads)
        source = next(rank for rank, head in enumerate(heads) if head.number == latest)
        self._check(heads, source, seats, latest)
        if latest == _NOT_BEGUN or any(head.number < latest for head in heads):
            await self._catch_up(collectives, heads, source, call)
        givers = [
            rank
            for rank, head in enumerate(heads)
            if head.number == latest and head.status == _RoundStatus.READY
        ]
        if givers:
            self._is_in = rank in givers

            def note(sent: Any) -> Awaitable[None]:
                return self._note(call, sent)

            participants = Participants(*self._life.roll())
            found = await part.exchange(Meeting(collectives, participants, rank in givers, note, call))
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
                if each not in givers and head.number == latest and head.status == _RoundStatus.IDLE
            )
        self._is_even = True
        self._life.notify_change()
        return all(head.status == _RoundStatus.DONE for head in heads)

    def _check(self, heads: list[_Head], source: int, seats: tuple[int, ...], latest: int) -> None:
        """Check that the members agree on the rounds. Raises the same error at every member.

        Raises:
            OperationMismatch: `Part.form` differs, or members are in rounds that did not begin together.
            SettingError: the quorum is larger than the group.
        """
        entries = self._life.roster.entries
        different = [
            f"rank {rank} ({entries[seats[rank]].name})"
            for rank, head in enumerate(heads)
            if head.form != heads[source].form
        ]
        if different:
            named = f"rank {source} ({entries[seats[source]].name})"
            raise OperationMismatch(
                f"{', '.join(different)} and {named} began rounds with different models or settings: "
                "names, shapes and dtypes of parameters, and all settings but the weight, have to be the same"
            )
        if latest == _NOT_BEGUN and self._quorum(len(heads)) > len(heads):
            raise SettingError(f"quorum is {self._wanted_quorum} of {len(heads)} members: no round could end")
        if latest > _NOT_BEGUN and any(
            head.number > _NOT_BEGUN and head.rounds_id != heads[source].rounds_id for head in heads
        ):
            raise OperationMismatch("the members are in rounds that did not begin together")

    async def _catch_up(self, collectives: Collectives, heads: list[_Head], source: int, call: str) -> None:
        """Send the state of rank `source` to all members that are behind; at the start, to all."""
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
        self._rounds_id = heads[source].rounds_id


def _raised(error: BaseException) -> DuetError:
    """Return the error to raise in a waiting call of the user's thread."""
    if isinstance(error, DuetError):
        return reraise(error)
    return GroupError(
        f"a round failed here ({type(error).__name__}: {error}); this member has left the group"
    )
