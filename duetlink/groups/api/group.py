"""A group as a person holds it: the synchronous face of what runs on the loop thread."""

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
    """Notebooks that met by one code. `duetlink.group()` makes one.

    All members call the same operations in the same order; each gives its own value and waits for the
    others. Calling one gives the others what it takes: that is the consent, and the audit log says what it
    was. Values are NumPy arrays, torch tensors, Arrow arrays of numbers, numbers, and dicts and lists of
    those. Operations can be interrupted, take `timeout_s`, and leave what was given as it was where they
    fail. `group.awaitable` has the same operations for `await`.
    """

    def __init__(
        self,
        life: GroupLife,
        way_out: Exit,
        thread: LoopThread,
        records: Records,
        only: Sequence[str] | None,
        come_again: Callable[[str], Group],
    ) -> None:
        """`come_again` joins by a code, with what this member's group was made with."""
        super().__init__(life, thread, Operations(life, records, only))
        self._exit = way_out
        self._come_again = come_again
        self._records = records
        self._ports = GroupPorts(life, records)
        self._ports.begin()
        self._posts: dict[int, int] = {}  # how many were opened in this epoch
        self._panel: Panel | None = None
        self._exit_plan = ExitPlan(thread, self._close_with_process, lambda: way_out.cut(KERNEL_ENDED))
        open_here.add(self._exit_plan)

    # -- how it stands ---------------------------------------------------------------------------------------

    @property
    def code(self) -> str | None:
        """The session code, for all who may come; whoever is in may pass it on."""
        return self._life.code

    @property
    def state(self) -> str:
        """`waiting` for members, `ready`, `changing` to the next epoch, or `closed: ` and why."""
        life = self._life
        if life.why_closed is not None:
            return f"closed: {life.why_closed}"
        if not life.is_ready:
            why = life.entrance.why_not_whole
            return f"waiting: {why}" if why is not None else "waiting"
        return "ready" if life.standing is not None and life.standing.is_settled else "changing"

    @property
    def epoch(self) -> int:
        """How often the members have changed; 0 before the group has begun."""
        return self._life.standing.epoch.number if self._life.is_ready and self._life.standing else 0

    @property
    def rank(self) -> int | None:
        """This member's number in this epoch, 0 to size - 1; None before it is in one."""
        now = self._life.standing
        return now.epoch.members.index(now.me) if self._life.is_ready and now is not None else None

    @property
    def size(self) -> int:
        """How many members this epoch has; 0 before the group has begun."""
        now = self._life.standing
        return len(now.epoch.members) if self._life.is_ready and now is not None else 0

    @property
    def on_loss(self) -> str:
        """What the loss of a member does to an operation: "raise", or "continue" to try it again."""
        return self._life.running.on_loss

    @property
    def verifier(self) -> str | None:
        """Three words, the same for all who were told of the same members; compare them aloud. They change
        when somebody new has come, not when somebody goes. None before this member has its seat.
        """
        return self._life.roster.verifier() if len(self._life.roster) and self._life.standing else None

    @property
    def members(self) -> Members:
        """Everybody by rank, then those who wait for the next epoch; with the path in use to each."""
        return watching.everybody(self._life)

    def status(self) -> GroupStatus:
        """The group at this moment, as plain data: members, links, what runs, who is slow. Sends nothing."""
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
        """Have `callback` called whenever members, links or the epoch change; returns what ends that.

        It is called on duetlink's own thread: it may take note, and must not wait or call operations. How far
        an operation is, `status` tells.
        """
        return self._life.sink.watch(callback)

    def panel(self) -> None:
        """Show the live panel of this group below the cell: members, everybody's links, what runs, who is
        slow. The last line `group` does the same.

        Raises PanelUnavailable: it cannot be drawn here.
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
        """Return this group once everybody is there and it has begun.

        Raises:
            PairingTimeout: not within `timeout_s`; the code stays valid. Or it expired before all had come.
            WrongCode: somebody tried a wrong code, and the seats that were left are burnt.
            DuetError: the group has closed, as `state` says.
        """
        but = "and the group has not begun: wait again, or let whoever opened it begin by close_doors()"
        self._wait_members(self._life.wait_ready, timeout_s, but)
        return self

    def wait_members(self, count: int, timeout_s: float | None = None) -> Group:
        """Return this group once so many are there, this one and those who wait for the next epoch included.

        Raises:
            PairingTimeout: not within `timeout_s`.
            DuetError: the group has closed, as `state` says.
        """

        async def wait() -> None:
            while self._there < count:
                self._life.check_open()
                await self._life.wait_change()

        self._wait_members(wait, timeout_s, f"not {count}")
        return self

    @property
    def _there(self) -> int:
        """How many members there are."""
        return len([each for each in self.members if each.state not in ("connecting", "lost")])

    def _wait_members(self, wait: Callable[[], Awaitable[None]], timeout_s: float | None, but: str) -> None:
        """Wait, and say how many members are there where it takes long, or too long."""

        async def within() -> None:
            try:
                async with asyncio.timeout(timeout_s):
                    await wait()
            except PairingTimeout:
                raise  # a TimeoutError as well, but it says why
            except TimeoutError:
                raise PairingTimeout(
                    f"{self._there} members are there after {timeout_s:g} s, {but}"
                ) from None

        with WaitingLine("", "stop waiting") as line:

            def show() -> None:
                line.what = f"waiting for members of the group, {self._there} are there so far"
                line.show()

            self._thread.run(within(), on_wait=show)

    def close_doors(self) -> None:
        """Take nobody in any more, and begin with those who are there. For whoever lets newcomers in: that is
        who opened the group, and when they have gone, rank 0; elsewhere it does nothing.
        """

        async def close_doors() -> None:
            self._life.entrance.shut()

        self._thread.run(close_doors())

    def explain(self, operation: str, size_bytes: int, *, density: float | None = None) -> Explanation:
        """How that operation would run on an array of that size, and why. Sends nothing.

        `density` is the share of items that are not zero at some member: for an all-reduce of float32, it
        also says what each way takes among which `codec="auto"` chooses.
        """

        async def explain(collectives: Collectives) -> Explanation:
            return collectives.explain(operation, size_bytes, density=density)

        return self._thread.run(self._life.running.operate(explain, counts=False))

    @property
    def sums(self) -> list[SumReport]:
        """How the last sums of this epoch with a codec of sums were made, 64 at most, the newest last."""

        async def sums(collectives: Collectives) -> list[SumReport]:
            return list(collectives.sums)

        return self._thread.run(self._life.running.operate(sums, counts=False))

    def post(self, over: str = "datagrams") -> GroupPost:
        """Datagrams to and from single members of this epoch, whoever of them goes later: what
        `duetlink.learning.Gossip` is made with. One at a time; all members open theirs. The audit log says
        how much was sent, when it is closed.

        Raises:
            SettingError: `over` is neither "datagrams" nor "streams".
        """
        return self._thread.run(self._post(over))

    async def _post(self, over: str) -> GroupPost:
        self._operations.check("gossip", "gossip")
        await self._life.wait_ready()
        now = self._life.standing
        assert now is not None
        links = [self._life.peers[seat].link if seat != now.me else None for seat in now.epoch.members]
        await self._operations.note("gossip", None)

        async def closed(sent_bytes: int) -> None:
            await self._operations.note("gossip", None, size_bytes=sent_bytes)

        # whoever opens another one in the same epoch does not take what is on its way for the last one
        serial = self._posts.get(now.epoch.number, 0)
        self._posts = {now.epoch.number: serial + 1}
        number = (now.epoch.number << 8 | serial & 0xFF) & 0xFFFFFFFF
        return GroupPost(self._thread, now.epoch.members.index(now.me), number, links, over, closed)

    def rejoin(self) -> Group:
        """Come into the group again that this member is out of (`GroupOver`): as a newcomer, with another
        rank, from the next `group.admit()` or `group.average()` of the others on. Closes this group, and
        returns the one to go on with.

        Raises:
            GroupError: this member is in its group, or has closed it.
            PairingError: nobody lets anybody in under the code any more, or what `duetlink.group` raises.
        """
        life = self._life
        if not isinstance(life.why_closed, GroupOver) or life.code is None:
            raise GroupError(f"only a member that is out of its group comes in again; this one: {self.state}")
        again = self._come_again(life.code)
        # the server in this kernel, if it has one, goes on as long as the code is in use here
        again._exit.at_end, self._exit.at_end = self._exit.at_end, None
        self.close()
        return again

    def close(self, reason: str = "") -> None:
        """Leave: the others are told, and go on. Safe to call twice."""
        if self._thread.stopped:
            return
        try:
            self._thread.run(self._close(reason))
        except BaseException:  # a person who interrupts this waits for nobody
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
            with contextlib.suppress(AuditUnavailable):  # nothing leaves any more, the person wanted the end
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
        """Let members connect to the TCP service at `host`:`port`, and to no other: `group.open_port(name,
        of=…)` at theirs is a port that leads to it. Connections are encrypted and authenticated by the link,
        go by its best path, and each is in the audit log of both, with the bytes each way.

        Args:
            port, host: of the service.
            name: by which the others open it.
            to: the ranks or names of those who may; by default everybody who is or comes in.

        Raises:
            SettingError: no such port, name or member, or a port of this name is shared already.
            AuditUnavailable: the audit log cannot be written; it is not shared.
        """
        seats = None if to is None else frozenset(self._ports.seat_of(member) for member in to)
        sharing = self._ports.share(checked_name(name), host, checked_port(port), seats)
        whom = "for all" if to is None else f"for {', '.join(map(str, to))}"
        return GroupPort(self._thread.run(sharing), self._ports, self._thread, whom)

    def open_port(self, name: str, of: int | str, *, port: int = 0) -> GroupPort:
        """A port on this machine, 127.0.0.1, that leads to the service that a member shares as `name`.

        Args:
            name: that the member has given it.
            of: the member's rank or name.
            port: the one to listen on, 0 for a free one.

        Raises:
            PortUnavailable: that member shares no port of this name with this one, or `port` is not free.
            SettingError: no such port, name or member. PeerLost, LinkClosed, CallTimeout: it does not answer.
        """
        opening = self._ports.open(self._ports.seat_of(of), checked_name(name), checked_port(port, least=0))
        return GroupPort(self._thread.run(opening), self._ports, self._thread, f"of {of}")

    # -- operations ------------------------------------------------------------------------------------------

    @property
    def awaitable(self) -> AwaitableGroup:
        """The same operations, each an awaitable of the running event loop."""
        return AwaitableGroup(self._operations, self._thread)

    def rounds(
        self, part: Part, *, quorum: int | None = None, grace_s: float = 10.0, shows: str = "average"
    ) -> Rounds:
        """Sums again and again that go on without those who pause, which `duetlink.learning.LocalSteps` uses.
        All members make them; `Rounds.open` begins.

        Args:
            part: what goes from round to round.
            quorum: how many members have to give something for a round; a majority by default. Where fewer
                are left, all of them.
            grace_s: how long a round waits for the others once there is a quorum.
            shows: which of the group's operations shows members as much as this: "average", "secure_sum", or
                "all_gather".

        Raises:
            SettingError: a value that cannot be.
            OperationRefused: `only` does not allow that operation.
        """
        secure = shows == "secure_sum"
        self._operations.check("rounds", "average" if secure else shows, secure=secure)
        return Rounds(
            self._life, self._exit, self._thread, self._operations.note, part, quorum=quorum, grace_s=grace_s
        )
