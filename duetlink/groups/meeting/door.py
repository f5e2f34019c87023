"""The door of a group: one code, and a seat at the signaling server for each who may come."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from duetlink.errors import DuetError, WrongCode
from duetlink.groups.meeting.wiring import Wiring
from duetlink.net.link.link import Link
from duetlink.net.signaling import Mailbox, SessionCode, SignalingServer, WebSocketMailbox
from duetlink.net.signaling.base import Mood


class Door:
    """Open from `open` until `shut`. Belongs to the loop thread."""

    def __init__(
        self,
        wiring: Wiring,
        on_link: Callable[[Link], None],
        on_burnt: Callable[[WrongCode], None],
        on_failed: Callable[[DuetError], None],
    ) -> None:
        """`on_link` is told of each link to somebody who knew the code; `on_burnt` that somebody did not,
        which shuts the door; `on_failed` that somebody who knew it could not be linked.
        """
        self._wiring = wiring
        self._on_link = on_link
        self._on_burnt = on_burnt
        self._on_failed = on_failed
        self._waiting: set[asyncio.Task[None]] = set()  # for somebody who knows the code
        self._linking: set[asyncio.Task[None]] = set()
        self.is_open = False

    async def open(self, server: SignalingServer, seats: int, lifetime_s: float) -> SessionCode:
        """Take the seats; returns the code. Raises SignalingUnavailable, SignalingRefused."""
        mailboxes, nameplate = await WebSocketMailbox.claim_seats(server.url, seats, lifetime_s)
        code = SessionCode.generate(nameplate, server.in_code)
        self.is_open = True
        for mailbox in mailboxes:
            guarded = _Seat(mailbox, self._burn)
            task = asyncio.ensure_future(self._wait_at(guarded, mailbox.url, code))
            self._waiting.add(task)
        return code

    @property
    def coming(self) -> int:
        """How many seats wait for somebody, or for the link to somebody who knew the code."""
        return len(self._waiting) + len(self._linking)

    async def shut(self) -> None:
        """Nobody comes any more but those who have shown that they know the code. Safe to call twice."""
        self.is_open = False
        waiting = list(self._waiting)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    async def close(self) -> None:
        """Turn everybody away. Safe to call twice."""
        linking = list(self._linking)
        for task in linking:
            task.cancel()
        await asyncio.gather(self.shut(), *linking, return_exceptions=True)

    def _burn(self) -> None:
        """A wrong guess. Those of whoever tries several seats at once must not be looked at any more."""
        self.is_open = False
        current = asyncio.current_task()
        for task in self._waiting:
            if task is not current:
                task.cancel()

    async def _wait_at(self, mailbox: Mailbox, url: str, code: SessionCode) -> None:
        task = asyncio.current_task()
        assert task is not None

        def known() -> None:
            self._waiting.discard(task)
            self._linking.add(task)

        try:
            link = await self._wiring.take_in(mailbox, url, code, known)
        except WrongCode:
            self._on_burnt(
                WrongCode(
                    f"somebody tried a wrong code for {code.nameplate}, or altered a message on the way; the "
                    "seats that were left are burnt. Who is in stays: go on with them by close_doors(), or "
                    "launch anew"
                )
            )
        except (DuetError, TimeoutError) as error:
            self._left(task)
            self._on_failed(error if isinstance(error, DuetError) else DuetError("a newcomer was too slow"))
        else:
            self._left(task)
            self._on_link(link)
        finally:
            self._left(task)
            with contextlib.suppress(DuetError):
                await mailbox.close()

    def _left(self, task: asyncio.Task[None]) -> None:
        self._waiting.discard(task)
        self._linking.discard(task)


class _Seat(Mailbox):
    """A mailbox that reports a wrong guess before anything else can happen."""

    def __init__(self, mailbox: Mailbox, on_wrong: Callable[[], None]) -> None:
        self._mailbox = mailbox
        self._on_wrong = on_wrong

    async def send(self, message: bytes) -> None:
        await self._mailbox.send(message)

    async def receive(self) -> bytes:
        return await self._mailbox.receive()

    async def close(self, mood: Mood = "happy") -> None:
        if mood == "wrong-code":
            self._on_wrong()  # in the same step of the loop as the guess
        await self._mailbox.close(mood)
