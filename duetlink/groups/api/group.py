"""`Group`, the object that users hold: blocking methods over the group's life on the loop thread."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Self

from duetlink.base.drawing.waiting import WaitingLine
from duetlink.base.runtime.at_exit import KERNEL_ENDED, ExitPlan, open_here
from duetlink.base.runtime.loop import LoopThread
from duetlink.errors import AuditUnavailable, GroupError, GroupOver, PairingTimeout, PanelUnavailable
from duetlink.groups.api import watching
from duetlink.groups.api.awaitable import AwaitableGroup
from duetlink.groups.api.blocking import BlockingOperations
from duetlink.groups.api.operations import Operations
from duetlink.groups.api.ports import GroupPort, GroupPorts
from duetlink.groups.api.post import GroupPost
from duetlink.groups.api.records import Records
from duetlink.groups.api.rounds import Part, Rounds
from duetlink.groups.collectives.collectives import Collectives
from duetlink.groups.collectives.planning.choice import Explanation
from duetlink.groups.collectives.sums.base import SumReport
from duetlink.groups.lifecycle.departures import LEFT
from duetlink.groups.lifecycle.exit import Exit
from duetlink.groups.lifecycle.life import GroupLife
from duetlink.groups.lifecycle.members import Members
from duetlink.groups.lifecycle.status import GroupStatus
from duetlink.net.ports.handle import checked_name, checked_port
from duetlink.panel import Panel, make_panel


class Group(BlockingOperations):
    """A group of notebooks that met by one code. `duetlink.group()` makes one.

    All members call the same operations in the same order; each gives its own value and waits for the
    others. By calling an operation, a user consents to sending the value that it takes; the audit log records
    it. Values are NumPy arrays, torch tensors, Arrow arrays of numbers, numbers, and dicts and lists of
    those. Operations can be interrupted, take `timeout_s`, and leave their arguments unchanged if they fail.
    `group.awaitable` has the same operations for `await`.
    """

    def __init__(
        self,
        life: GroupLife,
        member_exit: Exit,
        thread: LoopThread,
        records: Records,
        only: Sequence[str] | None,
        rejoin_by_code: Callable[[str], Group],
    ) -> None:
        """`rejoin_by_code` joins by a code, with the settings of this group."""
        super().__init__(life, thread, Operations(life, records, only))
        self._exit = member_exit
        self._rejoin = rejoin_by_code
        self._records = records
        self._ports = GroupPorts(life, records)
        self._ports.begin()
        self._posts: dict[int, int] = {}  # by epoch, the number of posts opened in it
        self._panel: Panel | None = None
        self._exit_plan = ExitPlan(thread, self._close_with_process, lambda: member_exit.cut(KERNEL_ENDED))
        open_here.add(self._exit_plan)

    # -- state -----------------------------------------------------------------------------------------------

    @property
    def code(self) -> str | None:
        """The session code by which others join; every member may pass it on."""
        return self._life.code

    @property
    def state(self) -> str:
        """`waiting` for members, `ready`, `changing` to the next epoch, or `closed: ` and the reason."""
        life = self._life
        if life.why_closed is not None:
            return f"closed: {life.why_closed}"
        if not life.is_ready:
            why = life.entrance.why_not_whole
            return f"waiting: {why}" if why is not None else "waiting"
        return "ready" if life.member_state is not None and life.member_state.is_settled else "changing"

    @property
    def epoch(self) -> int:
        """The number of the current epoch, which counts changes of the members; 0 before the group begins."""
        return self._life.member_state.epoch.number if self._life.is_ready and self._life.member_state else 0

    @property
    def rank(self) -> int | None:
        """This member's rank in the current epoch, 0 to size - 1; None before it is in one."""
        now = self._life.member_state
        return now.epoch.members.index(now.me) if self._life.is_ready and now is not None else None

    @property
    def size(self) -> int:
        """The number of members in the current epoch; 0 before the group begins."""
        now = self._life.member_state
        return len(now.epoch.members) if self._life.is_ready and now is not None else 0

    @property
    def on_loss(self) -> str:
        """The effect of a loss on an operation: "raise" PeerLost, or "continue" by repeating it."""
        return self._life.running.on_loss

    @property
    def verifier(self) -> str | None:
        """Three words to compare aloud. They are equal at members that were given the same names and keys.

        They change when a new member joins, not when one leaves. None before this member has its seat.
        """
        return self._life.roster.verifier() if len(self._life.roster) and self._life.member_state else None

    @property
    def members(self) -> Members:
        """All members by rank, then newcomers that wait for the next epoch, with the path in use to each."""
        return watching.everybody(self._life)

    def status(self) -> GroupStatus:
        """Return the state of the group as plain data: members, links, the operation that runs, departures.

        Sends no messages.
        """
        life, calls = self._life, list(self._operations.calls)
        return GroupStatus(
            self.state,
            self.code,
            self.verifier,
            self.epoch,
            self.rank,
            self.size,
            watching.members_of(life, self.members),
            watching.links_of(life),
            watching.operation_of(calls[0], life.collectives) if calls else None,
            life.departures.latest,
            watching.sum_of(life.collectives),
        )

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` whenever members, links or the epoch change; returns a function that ends that.

        The callback runs on duetlink's loop thread: it must not block or call operations. For the progress of
        an operation, poll `status`.
        """
        return self._life.sink.watch(callback)

    def panel(self) -> None:
        """Show the live panel of this group below the cell: members, links, and the operation that runs.

        A cell that ends with the line `group` does the same. Raises PanelUnavailable if the panel cannot be
        drawn here.
        """
        if self._panel is None:
            self._panel = make_panel(self)
        self._panel.display()

    def _ipython_display_(self) -> None:
        try:
            self.panel()
        except PanelUnavailable:
            print(f"{self!r}\n{self.members!r}")

    def wait_ready(self, timeout_s: float | None = None) -> Group:
        """Wait until all expected members have joined and the group has begun; returns this group.

        Raises:
            PairingTimeout: `timeout_s` has passed (the code stays valid), or the code expired before all had
                joined.
            WrongCode: a wrong code was tried, and the code is no longer valid.
            DuetError: the group has closed; `state` has the reason.
        """
        but = "and the group has not begun: wait again, or let the member that opened it call close_doors()"
        self._wait_members(self._life.wait_ready, timeout_s, but)
        return self

    def wait_members(self, count: int, timeout_s: float | None = None) -> Group:
        """Wait until `count` members are present; returns this group.

        This member and newcomers that wait for the next epoch are counted.

        Raises:
            PairingTimeout: `timeout_s` has passed.
            DuetError: the group has closed; `state` has the reason.
        """

        async def wait() -> None:
            while self._there < count:
                self._life.check_open()
                await self._life.wait_change()

        self._wait_members(wait, timeout_s, f"not {count}")
        return self

    @property
    def _there(self) -> int:
        """The number of members that are present, newcomers included."""
        return len([each for each in self.members if each.state not in ("connecting", "lost")])

    def _wait_members(self, wait: Callable[[], Awaitable[None]], timeout_s: float | None, but: str) -> None:
        """Wait with a line that counts the members; after `timeout_s`, raise PairingTimeout with `but`."""

        async def within() -> None:
            try:
                async with asyncio.timeout(timeout_s):
                    await wait()
            except PairingTimeout:
                raise  # a TimeoutError as well, but it says why
            except TimeoutError:
                raise PairingTimeout(
                    f"{self._there} members have joined after {timeout_s:g} s, {but}"
                ) from None

        with WaitingLine("", "stop waiting") as line:

            def show() -> None:
                line.what = f"waiting for members of the group, {self._there} have joined so far"
                line.show()

            self._thread.run(within(), on_wait=show)

    def close_doors(self) -> None:
        """Let no more newcomers in, and begin with the members that have joined.

        It has an effect only at the host: the member that opened the group, and after that one has gone, rank
        0.
        """

        async def close_doors() -> None:
            self._life.entrance.shut()

        self._thread.run(close_doors())

    def explain(self, operation: str, size_bytes: int, *, density: float | None = None) -> Explanation:
        """Explain how an operation would run on an array of that size, and why. Sends no messages.

        `density` is the share of items that are not zero on any member. With it, the explanation of an
        all-reduce of float32 also predicts the time of each codec that `codec="auto"` considers.
        """

        async def explain(collectives: Collectives) -> Explanation:
            return collectives.explain(operation, size_bytes, density=density)

        return self._thread.run(self._life.running.operate(explain, counts=False))

    @property
    def sums(self) -> list[SumReport]:
        """Reports on the sums with a codec in this epoch: at most the last 64, the newest last."""

        async def sums(collectives: Collectives) -> list[SumReport]:
            return list(collectives.sums)

        return self._thread.run(self._life.running.operate(sums, counts=False))

    def post(self, over: str = "datagrams") -> GroupPost:
        """Open datagrams to and from single members of this epoch, as `duetlink.learning.Gossip` needs them.

        All members open theirs; a member has one open at a time. It stays open when members go. When it is
        closed, the audit log records how many bytes were sent.

        Raises:
            SettingError: `over` is neither "datagrams" nor "streams".
        """
        return self._thread.run(self._post(over))

    async def _post(self, over: str) -> GroupPost:
        self._operations.check("gossip", "gossip")
        await self._life.wait_ready()
        now = self._life.member_state
        assert now is not None
        links = [self._life.peers[seat].link if seat != now.me else None for seat in now.epoch.members]
        await self._operations.note("gossip", None)

        async def closed(sent_bytes: int) -> None:
            await self._operations.note("gossip", None, size_bytes=sent_bytes)

        # a second post of the same epoch must not receive datagrams that were sent to the first one
        serial = self._posts.get(now.epoch.number, 0)
        self._posts = {now.epoch.number: serial + 1}
        number = (now.epoch.number << 8 | serial & 0xFF) & 0xFFFFFFFF
        return GroupPost(self._thread, now.epoch.members.index(now.me), number, links, over, closed)

    def rejoin(self) -> Group:
        """Join the group again after a `GroupOver`, and return the new `Group`; closes this one.

        This member joins as a newcomer, with another rank, at the next `group.admit()` or `group.average()`
        of the others.

        Raises:
            GroupError: this member is still in its group, or has closed it.
            PairingError: the code is no longer in use; or as `duetlink.group`.
        """
        life = self._life
        if not isinstance(life.why_closed, GroupOver) or life.code is None:
            raise GroupError(f"only a member that is out of its group can rejoin; this one is {self.state!r}")
        again = self._rejoin(life.code)
        # a signaling server in this kernel goes on as long as the code is in use here
        again._exit.at_end, self._exit.at_end = self._exit.at_end, None
        self.close()
        return again

    def close(self, reason: str = "") -> None:
        """Leave the group; the other members are notified and go on. Safe to call twice."""
        if self._thread.stopped:
            return
        try:
            self._thread.run(self._close(reason))
        except BaseException:  # a user who interrupts this does not want to wait for other members
            self._thread.loop.call_soon_threadsafe(self._exit.cut, reason or LEFT)
            raise
        finally:
            self._thread.stop()
            open_here.discard(self._exit_plan)

    async def _close(self, reason: str, serving_s: float | None = None) -> None:
        try:
            await self._ports.close()
            await self._exit.close(reason, serving_s=serving_s)
        finally:  # also where the interpreter ends and something above hangs
            with contextlib.suppress(AuditUnavailable):  # nothing is sent any more, so no entry is needed
                await self._records.closed(str(self._life.why_closed))

    async def _close_with_process(self, limit_s: float) -> None:
        await self._close(KERNEL_ENDED, limit_s / 2)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close("" if error is None else f"it failed with {type(error).__name__}")

    def __repr__(self) -> str:
        rank = "" if self.rank is None else f", rank {self.rank} of {self.size}, epoch {self.epoch}"
        return f"<Group {self.state}{rank}>"

    # -- services --------------------------------------------------------------------------------------------

    def share_port(
        self, port: int, name: str, *, to: Sequence[int | str] | None = None, host: str = "127.0.0.1"
    ) -> GroupPort:
        """Let members connect to the TCP service at `host`:`port`, and to no other.

        They call `group.open_port(name, of=…)`, which gives them a local port that leads to the service.
        Connections are encrypted and authenticated by the link and use its best path. Each one is in the
        audit log of both members, with the bytes in each direction.

        Args:
            port, host: address of the service, as this machine reaches it.
            name: the name by which the others open it.
            to: ranks or names of the members that may connect; by default all present and later members.

        Raises:
            SettingError: the port, name or member is invalid, or a port of this name is shared already.
            AuditUnavailable: the audit log cannot be written; the service is then not shared.
        """
        seats = None if to is None else frozenset(self._ports.seat_of(member) for member in to)
        sharing = self._ports.share(checked_name(name), host, checked_port(port), seats)
        whom = "for all" if to is None else f"for {', '.join(map(str, to))}"
        return GroupPort(self._thread.run(sharing), self._ports, self._thread, whom)

    def open_port(self, name: str, of: int | str, *, port: int = 0) -> GroupPort:
        """Open a port at 127.0.0.1 that leads to the service that another member shares as `name`.

        Args:
            name: the name under which the member shares it.
            of: the member's rank or name.
            port: the port to listen on, 0 for a free one.

        Raises:
            PortUnavailable: the member shares no port of this name with this one, or `port` is not free.
            SettingError: the port, name or member is invalid.
            PeerLost, LinkClosed, CallTimeout: the member does not answer.
        """
        opening = self._ports.open(self._ports.seat_of(of), checked_name(name), checked_port(port, least=0))
        return GroupPort(self._thread.run(opening), self._ports, self._thread, f"of {of}")

    # -- operations ------------------------------------------------------------------------------------------

    @property
    def awaitable(self) -> AwaitableGroup:
        """The same operations as awaitables of the running event loop."""
        return AwaitableGroup(self._operations, self._thread)

    def rounds(
        self, part: Part, *, quorum: int | None = None, grace_s: float = 10.0, shows: str = "average"
    ) -> Rounds:
        """Return repeated sums that go on without members that pause; `duetlink.learning.LocalSteps` uses
        them.

        All members make them; `Rounds.open` begins.

        Args:
            part: defines what a round exchanges and what becomes of the result.
            quorum: the number of members that have to give something in a round; by default a majority. If
                fewer members are left, all of them.
            grace_s: seconds that a round waits for the other members once there is a quorum.
            shows: the operation that reveals as much to the members as a round does, and that `only=` has to
                allow: "average", "secure_sum" or "all_gather".

        Raises:
            SettingError: `quorum` or `grace_s` is invalid.
            OperationRefused: `only` does not allow that operation.
        """
        secure = shows == "secure_sum"
        self._operations.check("rounds", "average" if secure else shows, secure=secure)
        return Rounds(
            self._life, self._exit, self._thread, self._operations.note, part, quorum=quorum, grace_s=grace_s
        )
