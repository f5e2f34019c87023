"""Joining a group: the founder opens the door; others ask the host for a seat, and retry if they lose it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from duetlink.base.wire import schema_pb2 as wire_pb
from duetlink.errors import DuetError, GroupFull, GroupOver, RemoteProtocolError
from duetlink.groups.lifecycle.entrance import FOUNDER
from duetlink.groups.lifecycle.life import GroupLife
from duetlink.groups.membership import messages
from duetlink.groups.membership import schema_pb2 as pb
from duetlink.groups.membership.member_state import MemberState
from duetlink.groups.membership.messages import Epoch
from duetlink.groups.membership.seat_assignment import SeatAssignment
from duetlink.net.link.link import Link, LinkOwner
from duetlink.net.signaling import SignalingServer

_MOST_KNOCKS = 5  # how often a member that was not admitted joins again
_MOST_TRIES, _FULL_PAUSE_S = 8, 5.0  # tries at each of these while the group is full, and the pause between


class Joining:
    """Brings one member into its group. Used on the loop thread."""

    def __init__(
        self, life: GroupLife, knock: Callable[[], Awaitable[tuple[Link, str]]] | None = None
    ) -> None:
        """`knock` connects to the host by the code, and returns the link and the signaling server's URL.

        It is None at the founder.
        """
        self._life = life
        self._knock = knock
        self._retrying: asyncio.Task[None] | None = None

    async def launch(self, server: SignalingServer, lifetime_s: float) -> None:
        """Found the group, and open its door under a code that is valid for `lifetime_s`.

        Raises SignalingUnavailable, SignalingRefused.
        """
        life = self._life
        life.links.url = server.url
        life.roster = life.roster.with_entry(life.links.me)
        life.member_state = MemberState(FOUNDER, Epoch(0, (FOUNDER,)), FOUNDER)
        life.code = await life.entrance.open(server, lifetime_s)

    async def come_in(self) -> None:
        """Connect to the host, and return when this member has a seat and a link to every other member.

        Raises as `knock`, or the reason why the group has closed for this member.
        """
        assert self._knock is not None
        self.join(*await self._knock())
        await self.wait_seated()

    def join(self, link: Link, url: str) -> None:
        """Ask the host for a seat over this link; retries run in the background until it is admitted."""
        self._ask_for_seat(link, url)
        self._retrying = self._life.serve(self._join_until_admitted())

    async def wait_seated(self) -> None:
        """Wait until this member has a link to every other one. Raises the reason if the group closes."""
        while not self._life.is_linked:
            self._life.check_open()
            await self._life.wait_change()

    def cancel(self) -> None:
        if self._retrying is not None:
            self._retrying.cancel()

    def _ask_for_seat(self, link: Link, url: str) -> None:
        life = self._life
        life.links.url = url

        def received(notice: wire_pb.GroupNotice) -> None:
            message = messages.parse(notice.content)
            if message.WhichOneof("body") != "seated":
                raise RemoteProtocolError("the host of the group did not give this member a seat")
            life.seated(link, SeatAssignment.from_wire(message.seated, life.links.me))

        is_lost = False

        def lost(why: str) -> None:
            nonlocal is_lost
            if not is_lost:
                is_lost = True
                life.serve(link.close(why))
                life.lose_seat(GroupOver(f"the host of the group was lost before it gave a seat: {why}"))

        link.rpc.notice(wire_pb.GroupNotice, received)
        link.belong_to(LinkOwner(closed=lambda error: lost(str(error)), lost=lost))
        link.start()
        entry = pb.Entry(key=life.links.me.key, name=life.links.me.name)
        link.rpc.tell_nowait(wire_pb.GroupNotice(content=pb.GroupMessage(newcomer=entry).SerializeToString()))

    async def _join_until_admitted(self) -> None:
        """Wait until this member is admitted or its group has ended; join again whenever its seat is lost."""
        life = self._life
        for knocks_left in reversed(range(_MOST_KNOCKS + 1)):
            while life.not_admitted is None:
                if life.is_ready or life.why_closed is not None:
                    return
                await life.wait_change()
            if self._knock is None or not knocks_left:
                life.end(life.not_admitted)
                return
            life.reset()
            try:
                link, url = await _knock_again(self._knock)
            except DuetError as error:
                life.end(error)
                return
            if life.why_closed is not None:
                await link.close(str(life.why_closed))
                return
            self._ask_for_seat(link, url)


async def _knock_again(knock: Callable[[], Awaitable[tuple[Link, str]]]) -> tuple[Link, str]:
    for _ in range(_MOST_TRIES - 1):
        try:
            return await knock()
        except GroupFull:  # the seat that this member lost may still count until the others notice
            await asyncio.sleep(_FULL_PAUSE_S)
    return await knock()
