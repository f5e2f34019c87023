"""The door of a group: one session code, and mailboxes at the signaling server for newcomers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from duetlink.errors import DuetError, GroupFull, PairingTimeout, UnknownCode, WrongCode
from duetlink.groups.links.meeting.wiring import Wiring
from duetlink.net.link.link import Link
from duetlink.net.signaling import Mailbox, SessionCode, SignalingServer, WebSocketMailbox
from duetlink.net.signaling.base import Mood

# Pause before a seat is opened again, after the server did not answer or a newcomer gave up without a guess.
_PAUSE_FIRST_S = 0.25
_PAUSE_LAST_S = 15.0


class Door:
    """The open seats of a group, from `open` or `take_over` until `shut`. Used on the loop thread.

    At least one seat is always open, so that a newcomer to a full group is told that it is full.
    """

    def __init__(
        self,
        wiring: Wiring,
        free_places: Callable[[], int],
        renews: Callable[[], bool],
        on_link: Callable[[Link], None],
        on_burnt: Callable[[WrongCode], None],
        on_failed: Callable[[DuetError], None],
    ) -> None:
        """Construct a closed door.

        Args:
            wiring: makes the links.
            free_places: returns how many more members the group has room for, including those whose link is
                being made.
            renews: returns True if seats that expire are opened again, because the group has begun.
            on_link: called with each new link to a newcomer that knew the code.
            on_burnt: called after a wrong guess, which closes the door.
            on_failed: called if the link to a newcomer that knew the code failed, or a seat expired.
        """
        self._wiring = wiring
        self._free_places = free_places
        self._renews = renews
        self._on_link = on_link
        self._on_burnt = on_burnt
        self._on_failed = on_failed
        self._waiting: set[asyncio.Task[None]] = set()  # wait for a newcomer that knows the code
        self._linking: set[asyncio.Task[None]] = set()  # make the link to one that does
        self._code: SessionCode | None = None
        self._url = ""
        self.hall = b""  # key that opens more mailboxes
        self.is_open = False

    async def open(self, server: SignalingServer, seats: int, lifetime_s: float) -> SessionCode:
        """Claim `seats` mailboxes at the server, and return the code.

        `lifetime_s` is how long the code is valid. Raises SignalingUnavailable, SignalingRefused.
        """
        mailboxes, nameplate = await WebSocketMailbox.claim_seats(server.url, seats, lifetime_s)
        self._code = SessionCode.generate(nameplate, server.in_code)
        self._url, self.hall = server.url, mailboxes[0].hall
        self.is_open = True
        for mailbox in mailboxes:
            self._begin(mailbox)
        return self._code

    def take_over(self, url: str, code: SessionCode, hall: bytes) -> None:
        """Open seats under a code whose door another member had opened."""
        self._code, self._url, self.hall = code, url, hall
        self.is_open = True
        self._refill()

    @property
    def coming(self) -> int:
        """The number of open seats, including those at which a link is being made."""
        return len(self._waiting) + len(self._linking)

    async def shut(self) -> None:
        """Close all seats but those whose newcomer has proved that it knows the code. Safe to call twice."""
        self.is_open, self.hall = False, b""
        await self._leave()

    async def close(self) -> None:
        """Close all seats; another member may then take over the door. Safe to call twice."""
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
        """Close all seats after a wrong guess, so that guesses made at several seats at once do not count."""
        self.is_open, self.hall = False, b""
        current = asyncio.current_task()
        for task in self._waiting:
            if task is not current:
                task.cancel()

    # -- seats -----------------------------------------------------------------------------------------------

    def refill(self) -> None:
        """Open as many seats as the group has room for, if the door is open."""
        if self.is_open:
            self._refill()

    def _refill(self, pause_s: float = 0.0) -> None:
        for _ in range(max(1, self._free_places() - len(self._linking)) - len(self._waiting)):
            self._begin(None, pause_s)

    def _begin(self, mailbox: WebSocketMailbox | None, pause_s: float = 0.0) -> None:
        self._waiting.add(asyncio.ensure_future(self._wait_at(mailbox, pause_s)))

    async def _wait_at(self, mailbox: WebSocketMailbox | None, pause_s: float) -> None:
        task, code = asyncio.current_task(), self._code
        assert task is not None
        assert code is not None
        guarded: Mailbox | None = None
        again_s: float | None = _PAUSE_FIRST_S  # pause before another seat is opened instead of this one

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
                    f"a newcomer tried a wrong code for {code.nameplate}, or a message was altered on the "
                    "way; the seats that were left are burnt, so the code is no longer valid. Members that "
                    "are in stay: begin with them by close_doors(), or launch a new group"
                )
            )
        except GroupFull:
            again_s = 0.0
        except (DuetError, TimeoutError) as error:
            is_over = isinstance(error, PairingTimeout) and task in self._waiting  # its seat has expired
            if is_over and (mailbox is None or not self._renews()):
                self.is_open = False
            self._left(task, again_s)
            self._on_failed(error if isinstance(error, DuetError) else DuetError("a newcomer was too slow"))
        else:
            again_s = None  # `known` has opened another seat already
            self._left(task, again_s)
            self._on_link(link)
        finally:
            self._left(task, again_s)
            if guarded is not None:
                with contextlib.suppress(DuetError):
                    await guarded.close()

    async def _claim(self, pause_s: float) -> WebSocketMailbox:
        """Claim one more mailbox; tries until the server gives one. Raises PairingTimeout if the code
        expired.
        """
        while True:
            await asyncio.sleep(pause_s)
            try:
                return await WebSocketMailbox.claim_seat(self._url, self.hall)
            except UnknownCode:
                raise PairingTimeout("the session code has expired") from None
            except DuetError:  # the server is out of reach, or has not noticed yet that seats are free
                pause_s = min(max(2 * pause_s, _PAUSE_FIRST_S), _PAUSE_LAST_S)

    @property
    def _has_room(self) -> bool:
        return self._free_places() > len(self._linking)

    def _left(self, task: asyncio.Task[None], again_s: float | None) -> None:
        if task not in self._waiting | self._linking:
            return
        self._waiting.discard(task)
        self._linking.discard(task)
        if self.is_open and again_s is not None:
            self._refill(again_s)


class _Seat(Mailbox):
    """A mailbox that reports a wrong guess at once, and is closed as "lonely" when the door is shut."""

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
