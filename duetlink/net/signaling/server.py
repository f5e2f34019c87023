"""The signaling server: two clients meet under a number, and it relays their messages without reading them.

It is blind (contents are sealed end to end), writes nothing to disk, logs no content, and has a limit for
every resource that a client can use up. A client's first frame claims, joins or meets; every later one is a
message or a leave.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import time
from collections.abc import Callable

from aiohttp import WSCloseCode, WSMsgType, web

from duetlink.errors import LocalProtocolError, RemoteProtocolError, SignalingUnavailable
from duetlink.net.signaling import schema_pb2 as pb
from duetlink.net.signaling.base import Role
from duetlink.net.signaling.frames import HEALTH, HEARTBEAT_S, OVERHEAD_BYTES, PATH, read_client_frame
from duetlink.net.signaling.limits import Limits
from duetlink.net.signaling.mailboxes import Mailboxes, Refusal, Refused, Seat, network_of, too_large
from duetlink.net.signaling.malformed_requests import MalformedRequests
from duetlink.net.signaling.reception import CountingServer, Reception

_SWEEP_INTERVAL_S = 5.0

_log = logging.getLogger(__name__)


class MailboxServer:
    """A signaling server on an aiohttp listener. Call `start`, then `stop`; use a new one to start again."""

    def __init__(self, limits: Limits | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits or Limits()
        self.mailboxes = Mailboxes(self.limits, clock)
        self._strangers = MalformedRequests(clock)
        self._reception = Reception(self.limits)
        self._sockets: set[web.WebSocketResponse] = set()
        self._server: CountingServer | None = None
        self._sweeper: asyncio.Task[None] | None = None

    async def start(
        self, host: str = "127.0.0.1", port: int = 0, ssl_context: ssl.SSLContext | None = None
    ) -> tuple[str, int]:
        """Listen; return the address in use. Raises SignalingUnavailable if that is not possible."""
        if self._server is not None:
            raise LocalProtocolError("this mailbox server has been started already")
        loop = asyncio.get_running_loop()
        server = self._server = CountingServer(self._handle, self._reception, self._strangers.logger)
        try:
            address = await self._reception.listen(host, port, server, ssl_context)
        except OSError as error:
            raise SignalingUnavailable(
                f"the signaling server cannot listen on {host}:{port} ({error.strerror or error}); "
                "choose another port"
            ) from None
        self._sweeper = loop.create_task(self._sweep(), name="duetlink-signaling-sweep")
        return address

    async def stop(self) -> None:
        """Close listener and connections; clients are notified that the server stops. Safe to call twice."""
        sweeper, self._sweeper = self._sweeper, None
        if sweeper is None or self._server is None:
            return
        sweeper.cancel()
        await self._reception.stop()
        await asyncio.gather(
            sweeper,
            *(ws.close(code=WSCloseCode.GOING_AWAY, message=b"server stops") for ws in self._sockets),
            return_exceptions=True,
        )
        await self._server.shutdown(timeout=1.0)
        self._strangers.tell(now=True)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_INTERVAL_S)
            self.mailboxes.expire()
            self._strangers.tell()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/" and request.method == "GET":
            return web.Response(text=HEALTH)
        if request.path != PATH:
            return web.Response(status=404, text="not found\n")
        if "Origin" in request.headers:
            # only browsers send it: a web page must not use a server on the visitor's machine
            return web.Response(status=403, text="the signaling server does not serve web pages\n")
        ws = web.WebSocketResponse(
            heartbeat=HEARTBEAT_S,
            compress=False,
            timeout=2.0,
            # a message slightly over the limit is answered with a reason, a much larger one is cut off while
            # it arrives
            max_msg_size=2 * (self.limits.message_bytes + OVERHEAD_BYTES),
        )
        if not ws.can_prepare(request):
            return web.Response(status=426, text="a WebSocket is expected here\n")
        try:
            await ws.prepare(request)
        except ConnectionError:  # the client left during the handshake
            # aiohttp closes the returned response, and cannot close a WebSocket that has not begun
            return ws if ws.prepared else web.Response()
        self._sockets.add(ws)
        try:
            await self._converse(request, ws, network_of(request.remote or ""))
        except (ConnectionError, TimeoutError):
            _log.debug("a signaling client went away")
        finally:
            self._sockets.discard(ws)
            with contextlib.suppress(ConnectionError):
                await ws.close()
        return ws

    async def _converse(self, request: web.BaseRequest, ws: web.WebSocketResponse, network: str) -> None:
        try:
            seat = await self._seat(request.protocol, ws, network)
        except Refused as refused:
            await self._send(ws, refused.frame())
            await ws.close(code=WSCloseCode.POLICY_VIOLATION)
            return
        if seat is None:
            return
        writer = asyncio.create_task(
            self._write(request, ws, seat), name=f"duetlink-signaling-write-{seat.role}"
        )
        mood: pb.Mood = pb.ERRORY
        try:
            mood = await self._read(ws, seat)
        except Refused as refused:
            seat.end(refused.frame())
            self.mailboxes.leave(seat, pb.ERRORY)
            await asyncio.wait([writer])
        finally:
            self.mailboxes.leave(seat, mood)
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)

    async def _seat(
        self, protocol: web.RequestHandler, ws: web.WebSocketResponse, network: str
    ) -> Seat | None:
        """Return the seat that the first frame asks for; None if the client leaves."""
        self._reception.greeted(protocol)  # from here on, a refusal gives its reason
        if self._reception.of(network) > self.limits.connections_per_address:
            text = f"more than {self.limits.connections_per_address} connections from one address"
            raise Refused(Refusal.LIMIT, text)
        try:
            async with asyncio.timeout(self.limits.opening_s):
                frame = await self._next(ws)
        except TimeoutError:
            raise Refused(Refusal.LIMIT, f"no first frame within {self.limits.opening_s:g} s") from None
        if frame is None:
            return None
        if frame.HasField("claim"):
            self.mailboxes.admit(network, known=bool(frame.claim.hall))
            if frame.claim.hall:
                return self.mailboxes.claim_seat(frame.claim.hall)
            return self.mailboxes.claim(frame.claim.lifetime_s, frame.claim.seats)
        if frame.HasField("join"):
            self.mailboxes.admit(network)
            return self.mailboxes.join(frame.join.nameplate)
        if frame.HasField("meet"):
            self.mailboxes.admit(network, known=True)
            return self.mailboxes.meet(frame.meet.place, Role.OWNER if frame.meet.owner else Role.SCIENTIST)
        raise Refused(Refusal.MALFORMED, "the first frame must claim, join or meet")

    async def _read(self, ws: web.WebSocketResponse, seat: Seat) -> pb.Mood:
        """Relay messages until the client leaves; return its mood."""
        while (frame := await self._next(ws)) is not None:
            if frame.HasField("message"):
                self.mailboxes.deliver(seat, frame.message)
            elif frame.HasField("leave"):
                return frame.leave
            else:
                raise Refused(Refusal.MALFORMED, "this connection has its mailbox already")
        return pb.ERRORY

    async def _next(self, ws: web.WebSocketResponse) -> pb.ClientFrame | None:
        """Return the next frame; None when the connection is over."""
        message = await ws.receive()
        if message.type is WSMsgType.TEXT:
            raise Refused(Refusal.MALFORMED, "text frames are not used here, only binary ones")
        if message.type is not WSMsgType.BINARY:
            return None
        if len(message.data) > self.limits.message_bytes + OVERHEAD_BYTES:
            raise too_large(len(message.data), self.limits)
        try:
            return read_client_frame(message.data)
        except RemoteProtocolError as error:
            raise Refused(Refusal.MALFORMED, str(error)) from None

    async def _write(self, request: web.BaseRequest, ws: web.WebSocketResponse, seat: Seat) -> None:
        """Send the seat's queue until its end, then close the connection, which ends `_read`."""
        try:
            while (frame := await seat.outbox.get()) is not None:
                await self._send(ws, frame)
            await ws.close()
        except (ConnectionError, TimeoutError):
            if request.transport is not None:
                request.transport.abort()

    async def _send(self, ws: web.WebSocketResponse, frame: pb.ServerFrame) -> None:
        async with asyncio.timeout(self.limits.stalled_s):
            await ws.send_bytes(frame.SerializeToString())
