"""A mailbox on a signaling server, over one WebSocket connection.

The server is not trusted. Redirects are refused: it must not choose which addresses in its clients' networks
are dialled. All bytes that it sends are counted, including empty fragments and pings, which form no message.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ssl
from typing import Self

import aiohttp
from aiohttp.client_proto import ResponseHandler

from duetlink.errors import (
    CodeUnattended,
    CodeUsed,
    DuetError,
    LinkClosed,
    PairingTimeout,
    RemoteProtocolError,
    SettingError,
    SignalingRefused,
    SignalingUnavailable,
    UnknownCode,
)
from duetlink.net.signaling import schema_pb2 as pb
from duetlink.net.signaling.base import MAX_MESSAGE_BYTES, Mailbox, Mood, Role
from duetlink.net.signaling.endings import CLOSED_HERE, check_size, other_side_left
from duetlink.net.signaling.frames import (
    HEARTBEAT_S,
    OVERHEAD_BYTES,
    PATH,
    mood_from_wire,
    mood_to_wire,
    read_server_frame,
)

CONNECT_TIMEOUT_S = 5.0
CLOSE_TIMEOUT_S = 2.0
_MAX_WAITING = 256  # the most messages that a hostile server can make this side store
# Our own servers relay at most 1 MiB per mailbox; headers, pings and TLS add little to that.
MAX_RECEIVED_BYTES = 2 * 1024 * 1024


class WebSocketMailbox(Mailbox):
    """Made by `claim`, `join` and `meet`. A reader task receives all frames, which also answers pings."""

    def __init__(self, url: str) -> None:
        self.url = url  # the server's address
        self._session: aiohttp.ClientSession | None = None
        self._ws: aiohttp.ClientWebSocketResponse | None = None
        self._reader: asyncio.Task[None] | None = None
        self._inbox: asyncio.Queue[bytes | DuetError] = asyncio.Queue()
        self._ended: DuetError | None = None
        self._closed = False
        self.hall = b""  # on the owner's side of a mailbox in a hall: the key that opens more of them

    @classmethod
    async def claim(
        cls, url: str, lifetime_s: float = 0, ssl_context: ssl.SSLContext | None = None
    ) -> tuple[Self, int]:
        """Open a mailbox as its owner; return it and its nameplate. `lifetime_s` 0: the server's longest.

        Raises SignalingUnavailable if no server answers at `url` within 5 s, SignalingRefused at a limit.
        """
        claim = pb.Claim(lifetime_s=min(max(0, round(lifetime_s)), 2**32 - 1))
        return await cls._claim(url, claim, ssl_context)

    @classmethod
    async def claim_seats(
        cls, url: str, seats: int, lifetime_s: float = 0, ssl_context: ssl.SSLContext | None = None
    ) -> tuple[list[Self], int]:
        """Open `seats` mailboxes under one nameplate as their owner; each can be joined once.

        Returns them and the nameplate. Raises what `claim` does, and then leaves none open.
        """
        first = pb.Claim(lifetime_s=min(max(0, round(lifetime_s)), 2**32 - 1), seats=seats)
        mailbox, nameplate = await cls._claim(url, first, ssl_context)
        made = [mailbox]
        try:
            for _ in range(seats - 1):
                made.append(await cls.claim_seat(url, mailbox.hall, ssl_context))
        except BaseException:
            for mailbox in made:
                await mailbox.close("errory")
            raise
        return made, nameplate

    @classmethod
    async def claim_seat(cls, url: str, hall: bytes, ssl_context: ssl.SSLContext | None = None) -> Self:
        """Open one more mailbox of the hall with this key, as its owner.

        Raises what `claim` does, and UnknownCode if there is no such hall any more.
        """
        mailbox, _ = await cls._claim(url, pb.Claim(hall=hall), ssl_context)
        return mailbox

    @classmethod
    async def _claim(cls, url: str, claim: pb.Claim, ssl_context: ssl.SSLContext | None) -> tuple[Self, int]:
        mailbox = cls(url)
        opened = await mailbox._open(pb.ClientFrame(claim=claim), ssl_context)
        mailbox.hall, nameplate = opened.claimed.hall, opened.claimed.nameplate
        if nameplate and (mailbox.hall or not (claim.seats or claim.hall)):
            return mailbox, nameplate
        await mailbox.close("errory")
        if nameplate:
            raise SignalingRefused(f"{url} knows no groups: it runs an older version of duetlink")
        raise mailbox._no_server()

    @classmethod
    async def join(cls, url: str, nameplate: int, ssl_context: ssl.SSLContext | None = None) -> Self:
        """Join as the scientist. Raises what `claim` does, UnknownCode and CodeUsed."""
        return await cls._join(url, pb.ClientFrame(join=pb.Join(nameplate=nameplate)), ssl_context)

    @classmethod
    async def meet(
        cls, url: str, place: bytes, role: Role, ssl_context: ssl.SSLContext | None = None
    ) -> Self:
        """Wait at the meeting place `place` (32 bytes) for the other side. Raises what `claim` does."""
        meet = pb.Meet(place=place, owner=role is Role.OWNER)
        return await cls._join(url, pb.ClientFrame(meet=meet), ssl_context)

    @classmethod
    async def _join(cls, url: str, first: pb.ClientFrame, ssl_context: ssl.SSLContext | None) -> Self:
        mailbox = cls(url)
        opened = await mailbox._open(first, ssl_context)
        if not opened.HasField("joined"):
            await mailbox.close("errory")
            raise mailbox._no_server()
        return mailbox

    async def send(self, message: bytes) -> None:
        if self._closed or self._ws is None:
            raise LinkClosed(CLOSED_HERE)
        check_size(message)
        # after the connection is lost, `receive` still returns what has arrived, then raises how it ended
        with contextlib.suppress(ConnectionError):
            await self._ws.send_bytes(pb.ClientFrame(message=message).SerializeToString())

    async def receive(self) -> bytes:
        if self._ended is not None:
            raise self._ended
        item = await self._inbox.get()
        if isinstance(item, bytes):
            return item
        self._ended = item
        raise item

    async def close(self, mood: Mood = "happy") -> None:
        if self._closed:
            return
        self._closed = True
        if self._ws is not None and not self._ws.closed:
            with contextlib.suppress(ConnectionError, TimeoutError):
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await self._ws.send_bytes(pb.ClientFrame(leave=mood_to_wire(mood)).SerializeToString())
        await self._release()
        while not self._inbox.empty():
            self._inbox.get_nowait()
        self._inbox.put_nowait(LinkClosed(CLOSED_HERE))

    async def _release(self) -> None:
        try:
            if self._reader is not None:
                self._reader.cancel()
                await asyncio.gather(self._reader, return_exceptions=True)
            if self._ws is not None:
                await self._ws.close()
        finally:
            if self._session is not None:
                await self._session.close()

    async def _open(self, first: pb.ClientFrame, ssl_context: ssl.SSLContext | None) -> pb.ServerFrame:
        """Connect, send the first frame and return the answer. Leaves nothing open if it raises."""
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                self._session = self._new_session()
                self._ws = await self._session.ws_connect(
                    endpoint(self.url),
                    heartbeat=HEARTBEAT_S,
                    max_msg_size=MAX_MESSAGE_BYTES + OVERHEAD_BYTES,
                    timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_TIMEOUT_S),
                    ssl=ssl_context if ssl_context is not None else True,
                )
                await self._ws.send_bytes(first.SerializeToString())
                answer = await self._next(self._ws)
            if isinstance(answer, DuetError):
                raise answer
        except BaseException as error:
            self._closed = True
            await self._release()
            if isinstance(error, DuetError) or not isinstance(error, Exception):
                raise
            raise self._unreachable(error) from None
        self._reader = asyncio.create_task(self._read(self._ws), name="duetlink-signaling-read")
        return answer

    def _new_session(self) -> aiohttp.ClientSession:
        async def redirected(*event: object) -> None:
            raise SignalingUnavailable(
                f"{self.url} redirects to another address, and redirects are not followed; "
                "if that is your server, set its new address"
            )

        tracing = aiohttp.TraceConfig()
        tracing.on_request_redirect.append(redirected)  # called before a redirect is followed
        connector = aiohttp.TCPConnector()
        # aiohttp limits the size of a message but not the number of its fragments: count all bytes below it
        connector._factory = functools.partial(_Counted, asyncio.get_running_loop())  # type: ignore[assignment]
        return aiohttp.ClientSession(connector=connector, trace_configs=[tracing])

    async def _read(self, ws: aiohttp.ClientWebSocketResponse) -> None:
        while True:
            try:
                frame = await self._next(ws)
            except Exception as error:  # any error of the connection must end a waiting receive
                frame = self._unreachable(error)
            if isinstance(frame, pb.ServerFrame) and not frame.HasField("message"):
                frame = RemoteProtocolError(f"the signaling server {self.url} sent a frame out of turn")
            if self._inbox.qsize() >= _MAX_WAITING:
                frame = SignalingRefused(
                    f"{self.url} sent more than {_MAX_WAITING} messages that were not received yet"
                )
            if isinstance(frame, DuetError):
                self._inbox.put_nowait(frame)
                await ws.close()
                return
            self._inbox.put_nowait(frame.message)

    async def _next(self, ws: aiohttp.ClientWebSocketResponse) -> pb.ServerFrame | DuetError:
        """Return the server's next frame, or the error that says how the mailbox ended."""
        message = await ws.receive()
        if message.type is aiohttp.WSMsgType.TEXT:
            return self._no_server()
        if message.type is not aiohttp.WSMsgType.BINARY:
            return SignalingUnavailable(
                f"the signaling server {self.url} closed the connection{_close_reason(ws)}; "
                "start again, with a new code if the old one was waiting there"
            )
        try:
            frame = read_server_frame(message.data)
        except RemoteProtocolError:
            return self._no_server()
        if frame.HasField("left"):
            return other_side_left(mood_from_wire(frame.left))
        if frame.HasField("refusal"):
            return self._refusal(frame.refusal)
        return frame

    def _refusal(self, refusal: pb.Refusal) -> DuetError:
        text = "".join(character for character in refusal.text if character.isprintable())[:200]
        said = f"the signaling server {self.url} says: {text}"
        match refusal.reason:
            case pb.Refusal.UNKNOWN_NAMEPLATE:
                return UnknownCode(f"{said}; check the number of the code, or ask the owner for a new one")
            case pb.Refusal.USED:
                return CodeUsed(f"{said}; a code pairs once: ask the owner for a new one")
            case pb.Refusal.UNATTENDED:
                return CodeUnattended(
                    f"{said}; the member that admits new ones may have left, and another one takes over: try "
                    "again in a moment"
                )
            case pb.Refusal.EXPIRED:
                return PairingTimeout(f"{said}; the owner has to launch() a new code")
            case _:
                return SignalingRefused(said)

    def _no_server(self) -> DuetError:
        return SignalingUnavailable(f"{self.url} does not answer as a duetlink signaling server does")

    def _unreachable(self, error: Exception) -> DuetError:
        if isinstance(error, aiohttp.InvalidURL):
            return SettingError(
                f"{self.url!r} is not an address of a signaling server; it looks like ws://host:port"
            )
        if isinstance(error, TimeoutError):
            what = f"nothing answered within {CONNECT_TIMEOUT_S:g} s"
        elif isinstance(error, aiohttp.WSServerHandshakeError):
            what = f"something else answers there: HTTP {error.status}"
        elif isinstance(error, OSError):
            what = error.strerror or str(error)
        else:
            what = str(error) or type(error).__name__
        return SignalingUnavailable(
            f"no signaling server at {self.url} ({what[:200]}); check the address, the network "
            "and that the owner's session is still running"
        )


class _Counted(ResponseHandler):
    """aiohttp's protocol of a connection, which aborts it above `MAX_RECEIVED_BYTES`."""

    _received_bytes = 0

    def data_received(self, data: bytes) -> None:
        self._received_bytes += len(data)
        if self._received_bytes <= MAX_RECEIVED_BYTES:
            super().data_received(data)
        elif self.transport is not None:
            self.transport.abort()


def endpoint(url: str) -> str:
    """Return the URL to connect to: a server's address, with `/v1` appended if it is missing."""
    return url if url.rstrip("/").endswith(PATH) else url.rstrip("/") + PATH


def _close_reason(ws: aiohttp.ClientWebSocketResponse) -> str:
    return f" (code {ws.close_code})" if ws.close_code else ""
