"""Makes the links of a member: to the host by the session code, to other members by the key of the pair."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from duetlink.errors import DuetError, GroupFull, IncompatiblePeer
from duetlink.net.link.endpoint import Endpoint
from duetlink.net.link.introducing import Introducing
from duetlink.net.link.link import Link
from duetlink.net.peer.connection import PeerConnection
from duetlink.net.peer.ice_servers import choose_ice_servers
from duetlink.net.reunion import Reunion
from duetlink.net.signaling import (
    GROUP,
    Mailbox,
    Role,
    SessionCode,
    SessionKey,
    SignalingHello,
    WebSocketMailbox,
    connected,
    pair_owner,
    pair_scientist,
)
from duetlink.settings import Settings

_PAUSE_FIRST_S = 0.25
_PAUSE_LAST_S = 4.0
# Links that a newcomer makes at the same time. Each costs both sides up to 0.1 s of a CPU. When many
# newcomers come to a busy machine, a few links that are made quickly are better than many that all run into
# timeouts.
_MOST_AT_ONCE = 4


class Wiring:
    """Makes links on one endpoint; the caller starts them. Methods are called on the loop thread."""

    def __init__(self, settings: Settings, endpoint: Endpoint, hello: SignalingHello) -> None:
        self.settings = settings
        self._endpoint = endpoint
        self.hello = hello
        self._making = asyncio.Semaphore(_MOST_AT_ONCE)

    async def take_in(
        self,
        mailbox: Mailbox,
        url: str,
        code: SessionCode,
        on_known: Callable[[], None],
        has_room: Callable[[], bool],
    ) -> Link:
        """Wait at a mailbox for a newcomer that knows the code, and return the link to it.

        `on_known` is called as soon as the newcomer has proved that it knows the code, if there is room.

        Raises:
            WrongCode: the newcomer used a wrong code.
            IncompatiblePeer: the newcomer wants to join a duet.
            GroupFull: there is no room; the newcomer gets the same error.
            DuetError: as `pair_owner` and `Link.connect`.
        """
        made: list[Introducing] = []
        stranger = is_full = False

        async def answer(hello: SignalingHello, offer: bytes) -> bytes:
            nonlocal stranger, is_full
            if GROUP not in hello.features:
                stranger = True  # the newcomer sees from our hello that this is a group
                return b""
            if not has_room():
                is_full = True
                return b""
            on_known()
            connection = await self._connection()
            made.append(Introducing(connection, self.settings, self._endpoint))
            return await connection.answer(offer)

        try:
            paired = await pair_owner(mailbox, code, self.hello, answer, self.settings.code_lifetime_s)
            if stranger:
                await mailbox.close()
                raise IncompatiblePeer(
                    f"{paired.hello.name or 'a newcomer'} tried to join this group as a duet"
                )
            if is_full:
                await mailbox.close()
                raise GroupFull(f"{paired.hello.name or 'a newcomer'} tried to join, and the group is full")
            linking = self._link(made[0], Reunion(paired.key, url, self.settings), initiator=False)
            return await connected(mailbox, code, linking)
        except BaseException:
            await self._drop(made)
            raise

    async def join(self, mailbox: WebSocketMailbox, code: SessionCode) -> Link:
        """Pair with the host by the code, and return the link to it. Raises GroupFull, and as
        `pair_scientist`.
        """
        made: list[Introducing] = []

        async def offer() -> bytes:
            connection = await self._connection()
            made.append(Introducing(connection, self.settings, self._endpoint))
            return await connection.offer()

        try:
            paired = await pair_scientist(mailbox, code, self.hello, offer())
            if GROUP not in paired.hello.features:
                raise IncompatiblePeer("this is the code of a duet: duetlink.join(code) joins it")
            if not paired.payload:
                raise GroupFull("the group is full: try again when one of its members has left")
            await mailbox.close()
            await made[0].accept(paired.payload)
            return await self._link(made[0], Reunion(paired.key, mailbox.url, self.settings), initiator=True)
        except BaseException:
            await mailbox.close("errory")
            await self._drop(made)
            raise

    async def meet(self, key: SessionKey, url: str) -> Link:
        """Make the link of a pair by way of the signaling server; tries until it is cancelled.

        The later member of the pair makes at most four links at a time. The earlier one waits at the server.
        """
        if key.role is Role.SCIENTIST:
            async with self._making:
                return await self._meet(key, url)
        return await self._meet(key, url)

    async def _meet(self, key: SessionKey, url: str) -> Link:
        reunion = Reunion(key, url, self.settings)
        pause_s = _PAUSE_FIRST_S
        while True:
            made: list[Introducing] = []
            try:
                connection = await reunion.connect()
                made.append(Introducing(connection, self.settings, self._endpoint))
                return await self._link(made[0], reunion, initiator=key.role is Role.SCIENTIST)
            except (DuetError, TimeoutError, OSError):
                await self._drop(made)
            except BaseException:
                await self._drop(made)
                raise
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_LAST_S)

    async def _link(self, introducing: Introducing, reunion: Reunion, *, initiator: bool) -> Link:
        link = await Link.connect(
            introducing, self.settings, self._endpoint, self.hello.name, initiator=initiator
        )
        link.reconnect = reunion.connect
        return link

    async def _connection(self) -> PeerConnection:
        settings = self.settings
        chosen, _ = await choose_ice_servers(settings.allowed_ice_servers, settings.ice_probe_timeout_s)
        return PeerConnection(chosen)

    async def _drop(self, made: list[Introducing]) -> None:
        closing: list[Awaitable[None]] = [introducing.close() for introducing in made]
        await asyncio.gather(*closing, return_exceptions=True)
