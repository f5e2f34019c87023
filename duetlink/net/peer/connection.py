"""One RTCPeerConnection with three negotiated data channels, from offer to close.

Descriptions travel as opaque bytes. Pairing seals them, which authenticates the DTLS fingerprints in them.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
from aiortc import RTCConfiguration, RTCIceServer, RTCPeerConnection, RTCSessionDescription
from aiortc.exceptions import InvalidStateError

from duetlink.base.wire import json_
from duetlink.errors import LinkClosed, PairingTimeout, PeerUnreachable, RemoteProtocolError
from duetlink.net.peer.channel import MessageChannel
from duetlink.net.peer.unreliable import UnreliableChannel

# Both sides create all channels with fixed numbers (RFC 8832 §3: negotiated out of band), so that neither
# waits for the other's announcement.
CONTROL_ID = 0
BULK_ID = 1
DATAGRAM_ID = 2

# Small, because control messages wait behind this queue; see net/paths/channel.py.
BULK_HIGH_WATER_BYTES = 128 * 1024

MAX_DESCRIPTION_BYTES = 48 * 1024


class _Description(msgspec.Struct, frozen=True):
    type: str
    sdp: str


class PeerConnection:
    """The WebRTC connection to one peer. Create, use and close it on the loop thread."""

    def __init__(self, ice_servers: list[RTCIceServer]) -> None:
        # always a list: with None aiortc would use a public STUN server of its own choice
        self._pc = RTCPeerConnection(RTCConfiguration(iceServers=ice_servers))
        loop = asyncio.get_running_loop()
        if loop.get_exception_handler() is None:
            loop.set_exception_handler(_pass_over_late_packets)
        self._ended: asyncio.Future[str] = loop.create_future()
        self._closing: asyncio.Task[None] | None = None
        self._pc.on("connectionstatechange", self._state_changed)
        self.control = MessageChannel(self._pc.createDataChannel("control", negotiated=True, id=CONTROL_ID))
        self.bulk = MessageChannel(
            self._pc.createDataChannel("bulk", negotiated=True, id=BULK_ID),
            high_water_bytes=BULK_HIGH_WATER_BYTES,
        )
        self.datagrams = UnreliableChannel(
            self._pc.createDataChannel(
                "datagrams", negotiated=True, id=DATAGRAM_ID, ordered=False, maxRetransmits=0
            )
        )

    async def offer(self) -> bytes:
        """Gather candidates and return this side's description."""
        await self._pc.setLocalDescription(await self._pc.createOffer())
        return self._local()

    async def answer(self, offer: bytes, *, patient: bool = False) -> bytes:
        """Apply the peer's offer, gather candidates and return the answer; connecting has begun.

        ICE gives up after half a minute of checks without a reply. With `patient` it keeps waiting, for a
        peer whose answer a person carries by hand, and continues when the peer's checks arrive.
        """
        if patient:
            # trickle ICE (RFC 8838): while more candidates may follow, ICE does not fail
            offer = offer.replace(b"a=end-of-candidates\\r\\n", b"")
        await self._set_remote(offer, "offer")
        await self._pc.setLocalDescription(await self._pc.createAnswer())
        return self._local()

    async def accept(self, answer: bytes) -> None:
        """Apply the peer's answer; connecting starts in the background."""
        await self._set_remote(answer, "answer")

    async def wait_open(self, timeout_s: float) -> None:
        """Wait until both ordered data channels are open; the datagram channel opens with them.

        Raises:
            PeerUnreachable: ICE or DTLS failed; the message says what was tried.
            PairingTimeout: they did not open within `timeout_s`.
        """
        opened = asyncio.gather(self.control.opened, self.bulk.opened)
        try:
            done, _ = await asyncio.wait(
                (opened, self._ended), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
            if opened in done and opened.exception() is None:
                return
        finally:
            opened.cancel()
            await asyncio.gather(
                opened, return_exceptions=True
            )  # otherwise asyncio reports it when it is garbage-collected
        if done:
            raise PeerUnreachable(
                f"no network path to the peer was found ({self._candidates()}); where both sides are behind "
                "strict NATs or firewalls, set a TURN server in DUETLINK_ICE_SERVERS"
            )
        raise PairingTimeout(
            f"the peer was met, but no connection was made in {timeout_s:g} s ({self._candidates()})"
        )

    async def wait_ended(self) -> str:
        """Wait until the connection has failed or the peer has closed it; return the reason."""
        return await asyncio.shield(self._ended)

    async def close(self) -> None:
        """End the connection and free its sockets. Safe to call twice."""
        self.control.fail("this side closed the link")
        self.bulk.fail("this side closed the link")
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._pc.close())
        # shielded: aiortc may be closing it too, and cancelling one of the two would break both
        await asyncio.shield(self._closing)
        if not self._ended.done():
            self._ended.set_result("this side closed the link")

    def _local(self) -> bytes:
        description = self._pc.localDescription
        return json.dumps({"type": description.type, "sdp": description.sdp}).encode()

    async def _set_remote(self, data: bytes, expected: str) -> None:
        if len(data) > MAX_DESCRIPTION_BYTES:
            raise RemoteProtocolError(f"the peer's session description is too long: {len(data)} bytes")
        try:
            description = json_.read(data, _Description)
            if description.type != expected or "m=application" not in description.sdp:
                raise ValueError(f"it is not an {expected} of data channels")
            await self._pc.setRemoteDescription(
                RTCSessionDescription(sdp=description.sdp, type=description.type)
            )
        except InvalidStateError:
            raise LinkClosed("the connection was closed while the peer's description arrived") from None
        except Exception as error:
            # aiortc's SDP parser asserts, indexes and converts: malformed text may raise nearly anything
            raise RemoteProtocolError(
                f"the peer's session description cannot be read: {type(error).__name__} {str(error)[:200]}"
            ) from None

    def _state_changed(self) -> None:
        state = self._pc.connectionState
        if state in ("failed", "closed") and not self._ended.done():
            why = "no path to the peer works any longer"
            if state == "closed":
                why = "the peer closed the connection"
            self._ended.set_result(why)
            self.control.fail(why)
            self.bulk.fail(why)

    def _candidates(self) -> str:
        def count(description: RTCSessionDescription | None) -> int:
            return description.sdp.count("a=candidate:") if description else 0

        return (
            f"{count(self._pc.localDescription)} addresses here, "
            f"{count(self._pc.remoteDescription)} at the peer"
        )


def _pass_over_late_packets(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Ignore send errors of aiortc's background tasks after the connection has gone.

    Such an error is a lost packet, and the connection's state tells how it ended. Everything else is reported
    as usual.
    """
    task, error = context.get("future"), context.get("exception")
    name = getattr(task.get_coro(), "__qualname__", "") if isinstance(task, asyncio.Task) else ""
    if isinstance(error, ConnectionError) and name.startswith("RTCSctpTransport."):
        return
    loop.default_exception_handler(context)
