"""The door of a group: one code, and seats at the signaling server for those who may come."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from duetlink.errors import DuetError, GroupFull, PairingTimeout, UnknownCode, WrongCode
from duetlink.groups.links.meeting.wiring import Wiring
from duetlink.net.link.link import Link
from duetlink.net.signaling import Mailbox, SessionCode, SignalingServer, WebSocketMailbox
from duetlink.net.signaling.base import Mood

# between two tries to open a seat, where the server does not answer or somebody left a seat without a guess
_PAUSE_FIRST_S = 0.25
_PAUSE_LAST_S = 15.0


class Door:
    """Open from `open` or `take_over` until `shut`. Belongs to the loop thread.

    One seat at least is kept open, so that whoever comes to a full group hears from it that it is full.
    """

    def __init__(
        self,
        wiring: Wiring,
        room: Callable[[], int],
        renews: Callable[[], bool],
        on_link: Callable[[Link], None],
        on_burnt: Callable[[WrongCode], None],
        on_failed: Callable[[DuetError], None],
    ) -> None:
        """`room` says how many may come, those included who are about to; `renews` whether the code is to
        live longer than a seat waits: it is that of a group that has begun. `on_link` is told of each link to
        somebody who knew the code; `on_burnt` that somebody did not, which shuts the door; `on_failed` that
        somebody who knew it could not be linked, or that the time of a seat is over.
        """
        self._wiring = wiring
        self._room = room
        self._renews = renews
        self._on_link = on_link
        self._on_burnt = on_burnt
        self._on_failed = on_failed
        self._waiting: set[asyncio.Task[None]] = set()  # for somebody who knows the code
        self._linking: set[asyncio.Task[None]] = set()
        self._code: SessionCode | None = None
        self._url = ""
        self.hall = b""  # opens more seats
        self.is_open = False

    async def open(self, server: SignalingServer, seats: int, lifetime_s: float) -> SessionCode:
        """Take the seats; returns the code. Raises SignalingUnavailable, SignalingRefused."""
        mailboxes, nameplate = await WebSocketMailbox.claim_seats(server.url, seats, lifetime_s)
        self._code = SessionCode.generate(nameplate, server.in_code)
        self._url, self.hall = server.url, mailboxes[0].hall
        self.is_open = True
        for mailbox in mailboxes:
            self._begin(mailbox)
        return self._code

    def take_over(self, url: str, code: SessionCode, hall: bytes) -> None:
        """Open seats under a code that another member had the door of."""
        self._code, self._url, self.hall = code, url, hall
        self.is_open = True
        self._refill()

    @property
    def coming(self) -> int:
        """How many seats wait for somebody, or for the link to somebody who knew the code."""
        return len(self._waiting) + len(self._linking)

    async def shut(self) -> None:
        """Nobody comes any more but those who have shown that they know the code. Safe to call twice."""
        self.is_open, self.hall = False, b""
        await self._leave()

    async def close(self) -> None:
        """Turn everybody away; another member may take the door over. Safe to call twice."""
        self.is_open = False
        linking = list(self._linking)
        for task in linking:
            task.cancel()
        await asyncio.gather(self._leave(), *linking, return_exceptions=True)

    async def _leave(self) -> None:
        waiting = list(self._waiting)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    def _burn(self) -> None:
        """A wrong guess. Those of whoever tries several seats at once must not be looked at any more."""
        self.is_open, self.hall = False, b""
        current = asyncio.current_task()
        for task in self._waiting:
            if task is not current:
                task.cancel()

    # -- seats -----------------------------------------------------------------------------------------------

    def refill(self) -> None:
        """As many seats as somebody may come to, if the door is open."""
        if self.is_open:
            self._refill()

    def _refill(self, pause_s: float = 0.0) -> None:
        for _ in range(max(1, self._room() - len(self._linking)) - len(self._waiting)):
            self._begin(None, pause_s)

    def _begin(self, mailbox: WebSocketMailbox | None, pause_s: float = 0.0) -> None:
        self._waiting.add(asyncio.ensure_future(self._wait_at(mailbox, pause_s)))

    async def _wait_at(self, mailbox: WebSocketMailbox | None, pause_s: float) -> None:
        task, code = asyncio.current_task(), self._code
        assert task is not None
        assert code is not None
        guarded: Mailbox | None = None
        again_s: float | None = _PAUSE_FIRST_S  # until another seat is opened in this one's place

        def known() -> None:
            self._waiting.discard(task)
            self._linking.add(task)
            self.refill()

        try:
            if mailbox is None:
                mailbox = await self._claim(pause_s)
            guarded = _Seat(mailbox, self._burn, lambda: not self.hall)
            link = await self._wiring.take_in(guarded, mailbox.url, code, known, lambda: self._has_room)
        except WrongCode:
            self._on_burnt(
                WrongCode(
                    f"somebody tried a wrong code for {code.nameplate}, or altered a message on the way; the "
                    "seats that were left are burnt. Who is in stays: go on with them by close_doors(), or "
                    "launch anew"
                )
            )
        except GroupFull:
            again_s = 0.0
        except (DuetError, TimeoutError) as error:
            is_over = isinstance(error, PairingTimeout) and task in self._waiting  # the time of its seat
            if is_over and (mailbox is None or not self._renews()):
                self.is_open = False
            self._left(task, again_s)
            self._on_failed(error if isinstance(error, DuetError) else DuetError("a newcomer was too slow"))
        else:
            again_s = None  # another one was opened when this one was taken
            self._left(task, again_s)
            self._on_link(link)
        finally:
            self._left(task, again_s)
            if guarded is not None:
                with contextlib.suppress(DuetError):
                    await guarded.close()

    async def _claim(self, pause_s: float) -> WebSocketMailbox:
        """One more seat; tries until there is one. Raises PairingTimeout: there will be none."""
        while True:
            await asyncio.sleep(pause_s)
            try:
                return await WebSocketMailbox.claim_seat(self._url, self.hall)
            except UnknownCode:
                raise PairingTimeout("the time of the code is over") from None
            except DuetError:  # out of reach, or it has not noticed that somebody's seats are free
                pause_s = min(max(2 * pause_s, _PAUSE_FIRST_S), _PAUSE_LAST_S)

    @property
    def _has_room(self) -> bool:
        return self._room() > len(self._linking)

    def _left(self, task: asyncio.Task[None], again_s: float | None) -> None:
        if task not in self._waiting | self._linking:
            return
        self._waiting.discard(task)
        self._linking.discard(task)
        if self.is_open and again_s is not None:
            self._refill(again_s)


class _Seat(Mailbox):
    """A mailbox that reports a wrong guess before anything else can happen, and says when nobody is to come
    any more.
    """

    def __init__(self, mailbox: Mailbox, on_wrong: Callable[[], None], is_shut: Callable[[], bool]) -> None:
        self._mailbox = mailbox
        self._on_wrong = on_wrong
        self._is_shut = is_shut

    async def send(self, message: bytes) -> None:
        await self._mailbox.send(message)

    async def receive(self) -> bytes:
        return await self._mailbox.receive()

    async def close(self, mood: Mood = "happy") -> None:
        if mood == "wrong-code":
            self._on_wrong()  # in the same step of the loop as the guess
        elif self._is_shut():
            mood = "lonely"
        await self._mailbox.close(mood)
